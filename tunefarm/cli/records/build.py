"""`tunefarm build`: what a build job runs.

Fetch best configs over HTTP, replay them, build, check, report.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.errors import TunefarmError
from compiler.runtime.files.header import c_name_problem
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tunefarm.cli.common import FILE, FOLDER, OBJECTIVE, NotTunedError, Share, Timespan, Whole
from tunefarm.cli.completion import FileOrName, WebReleaseName
from tunefarm.cli.records.build_check import asked_fleet, checked, class_of, opened
from tunefarm.cli.records.build_files import FORMATS, write_each, write_library
from tunefarm.cli.records.build_lock import (
    Lock,
    LockedKernel,
    cache_key,
    check_code,
    check_plan,
    config_digest,
    make_lock,
    read_lock,
    write_lock,
)
from tunefarm.cli.records.build_missing import tune_missing
from tunefarm.cli.records.build_report import BuiltItem, item_json, show_report
from tunefarm.cli.records.build_words import read_words
from tunefarm.cli.records.family import build_families
from tunefarm.cli.records.subject import task_of, values_of
from tunefarm.cli.tuning.fleet import given_target
from tunefarm.client import BestReply, Client
from tunefarm.settings import Settings
from tuner.devices.fleet import DeviceSession
from tuner.families.family import FamilySpec
from tuner.kernels.family_build import maker_for, maker_of
from tuner.kernels.files import Item
from tuner.kernels.hand_schedules import HandSchedules
from tuner.kernels.jobs import names_model
from tuner.kernels.kernel import CKernel, FunctionKernel
from tuner.kernels.space import config_of
from tuner.number_text import counted
from tuner.task import TuningTask
from tuner.untuned import runnable
from tuner.workloads import WorkloadSpec

_EPILOG = """\b
Examples:
  tunefarm build matmul:512,512,512:float32 --out build/
  tunefarm build matmul:512,512,512 conv2d:1,64,56,56,64,3,3 --require-tuned
  tunefarm build matmul:512,512,512 --release 2026.11 --require-tuned
  tunefarm build matmul:512,512,512 --key cpu --check --json
  tunefarm build matmul:512,512,512 --name matmul --out build/
  tunefarm build matmul:512,512,512 --out build/ --format so --format header
  tunefarm build kernels.toml --library kernels --out build/ --format so
  tunefarm build kernels.toml --out build/ --lock kernels.lock
  tunefarm build kernels.toml --out build/ --locked kernels.lock
  tunefarm build kernels.toml --cache-key
  tunefarm build dense:M,3072,768 --check --out build/ --format so
  tunefarm build conv2d:1,64,H,H,64,3,3 --shapes H=24,48 --out build/
  tunefarm build model.onnx --check --require-tuned 95% --out build/
\b
Exit status: 0 built, 1 an error, 2 wrong usage, 3 a kernel has no config and
--require-tuned was given, 4 a built kernel failed its check, or is not what
--locked says.
"""

_C_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Build(click.Command):
    """Reads `--require-tuned 95%` as `--require-tuned-time 95%`.
    Click would take 95% for a WORKLOAD, since a flag has no value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        text = "\0".join(args)
        shares = re.sub(r"(?:^|(?<=\0))--require-tuned[=\0](?=[\d.]+%(?:\0|$))", "--require-tuned-time=", text)
        return super().parse_args(ctx, shares.split("\0") if args else args)


@click.command(epilog=_EPILOG, cls=_Build)
@click.argument("workloads", nargs=-1, required=True, type=FileOrName(), metavar="WORKLOAD...")
@click.option("--api", help="Address of the web app.  [default: the setting, http://127.0.0.1:9180]")
@click.option("--target", help="Target to build for.  [default: the device's, or this machine's]")
@click.option("--device-class", help="Device class the configs must be for.  [default: the device's, if one is given]")
@click.option("--out", type=FOLDER, help="Folder for the artifacts.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(FORMATS),
    multiple=True,
    default=["tunefarm"],
    help="Files to write: tar is of objects, for load_module; C programs link the so. May be repeated.  "
    "[default: tunefarm]",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="The kernel's function in C. Once for each workload, in their order.  [default: made of the workload]",
)
@click.option(
    "--library", metavar="NAME", help="Write one library with all kernels, of this name.  [default: a file each]"
)
@click.option("--release", type=WebReleaseName(), help="Build only with the configs of this approved release.")
@OBJECTIVE
@click.option("--lock", type=FILE, help="Write what was built to this file, as digests.")
@click.option("--locked", type=FILE, help="Fail unless kernels, configs and code are what this lock file says.")
@click.option("--cache-key", is_flag=True, help="Print a digest of all inputs of the build, and build nothing.")
@click.option(
    "--require-tuned",
    is_flag=True,
    help="Fail when a kernel has no config of its own. With a share, such as 95%: as --require-tuned-time.",
)
@click.option(
    "--require-tuned-time",
    type=Share(),
    help="For a model: fail if tuned kernels have less than this share of the kernels' time, such as 95%.",
)
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of a model's symbolic dimension.")
@click.option(
    "--shapes",
    multiple=True,
    metavar="M=20,40",
    help="Sizes of a family that get a kernel of their own, besides tuned ones.",
)
@click.option(
    "--tune-missing", is_flag=True, help="First let the web app tune kernels that have no config of their own."
)
@click.option("--tune-key", default="*", show_default=True, help="Devices of the tracker that --tune-missing tunes on.")
@click.option("--tune-trials", type=Whole(1, 1_000_000), default=64, show_default=True, help="Trials of each of them.")
@click.option("--tune-wait", type=Timespan(), default="1h", show_default=True, help="Longest wait for --tune-missing.")
@click.option("--no-adapt", is_flag=True, help="Don't adapt configs of similar workloads to kernels that have none.")
@click.option("--check", is_flag=True, help="Run each kernel and compare its output with the untuned build's.")
@click.option("--bisect", is_flag=True, help="With --check of an ONNX model: name the first operator that differs.")
@click.option("--key", help="Check on a device that the tracker lends for this key.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting]")
@click.option("--device", metavar="HOST:PORT", help="Check on this server.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.pass_obj
def build(settings: Settings, /, workloads: tuple[str, ...], **given: Any) -> None:
    """Build WORKLOADs or a model with the best configs the web app knows.

    Report hit, near, as written or untuned. A WORKLOAD is a name, a file that `tunefarm tune` takes, or FILE:NAME. It
    may also be the name or key of a kernel that the web app has records of, if its file is in this folder and
    unchanged. Kernels in C are compiled with the values of their best config, or of their reference. A family
    (dense:M,3072,768, or a kernel with `shapes`) becomes one artifact. A model is an ONNX file, what torch.export.save
    wrote (.pt2), torchvision:NAME, or FILE.py:NAME of a module of graphs: all of it becomes one artifact, which
    `tunefarm run` runs.

    With a device (--key or --device) the default target is the device's. --check without one checks on this machine.
    """
    _check_flags(given)
    if any(names_model(word) for word in workloads):
        _refuse_kernel_flags(given, "models")
        if len(workloads) > 1 or given["names"]:
            raise click.UsageError("a model is built alone, under its file's name")
        if given["shapes"]:
            raise click.UsageError("--shapes is for families; a model's dimensions are fixed with --dim")
        from tunefarm.cli.models.build import build_model

        build_model(settings, workloads[0], given)
        return
    if given["dims"] or given["bisect"] or given["require_tuned_time"] is not None:
        raise click.UsageError("--dim, --bisect and --require-tuned-time are for models")
    named = [word for word in workloads if FamilySpec.is_family(word)]
    with Client(given["api"] or settings.api, token=settings.api_token) as client:
        job = read_words(client, [word for word in workloads if word not in named])
    items = job.items
    if makers := [*map(maker_of, named), *map(maker_for, job.families)]:
        _refuse_kernel_flags(given, "families")
        if given["objective"] != "time":
            raise click.UsageError("--objective energy is for kernels and models: families are chosen by time")
        if items:
            raise click.UsageError("build families and kernels of one size separately: name one with FILE:NAME")
        build_families(settings, makers, given)
        return
    if given["shapes"]:
        raise click.UsageError("--shapes is for families, such as dense:M,3072,768")
    _check_names(given["names"], len(items))
    make_fleet = asked_fleet(settings, given)
    lock = read_lock(given["locked"]) if given["locked"] else None
    wanted = given_target(given["target"]) if given["target"] else None
    tasks = [task_of(item, wanted or Target("llvm")) for item in items]  # bad names fail before anything starts
    with ExitStack() as stack:
        client = stack.enter_context(Client(given["api"] or settings.api, token=settings.api_token))
        if given["tune_missing"]:
            with opened(make_fleet, wanted) as (target, session):  # given back: the run may be on this very device
                plan = _planned(
                    client, items, [replace(t, target=target) for t in tasks], class_of(session, given), given
                )
            if missing := [(k.item, k.task) for k in plan if not k.reply.tuned]:
                how = {name: given[f"tune_{name}"] for name in ("key", "trials", "wait")}
                tune_missing(client, missing, **how)
        target, session = stack.enter_context(opened(make_fleet, wanted))
        tasks = [replace(t, target=target) for t in tasks]
        kernels = _planned(client, items, tasks, class_of(session, given), given)
        if given["cache_key"]:
            click.echo(_cache_key(target, kernels, given))
            return
        _require(kernels, given)
        report = _built(target, kernels, lock, session, given)
    show_report(report, given["as_json"])


@dataclass(frozen=True)
class Planned:
    """A kernel to build: `name` is its function's, `reply` what the web app has for it."""

    item: Item
    task: TuningTask
    name: str
    reply: BestReply

    def locked(self, artifact: Artifact | None) -> LockedKernel:
        """The kernel as a lock file has it."""
        how = BuiltItem(self.task, self.name, self.reply, artifact, (), None).how
        code = artifact.digest if artifact else ""
        return LockedKernel(self.task.name, self.name, self.task.key, how, config_digest(self.reply), code)


def _planned(
    client: Client,
    items: Sequence[Item],
    tasks: Sequence[TuningTask],
    device_class: str | None,
    given: Mapping[str, Any],
) -> list[Planned]:
    """The kernels with what the web app has for them."""
    names = given["names"] or [_name(item, t) for item, t in zip(items, tasks, strict=True)]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TunefarmError(f"two kernels have the function {twice}", hint="give each its own name with --name")
    replies = client.best_batch(
        [t.func for t in tasks],
        str(tasks[0].target),
        device_class,
        release=given["release"],
        nearest=not given["no_adapt"],
        objective=given["objective"],
    )
    found = zip(items, tasks, names, replies, strict=True)
    return [Planned(item, task, name, _own(item, reply)) for item, task, name, reply in found]


def _cache_key(target: Target, kernels: Sequence[Planned], given: Mapping[str, Any]) -> str:
    how = {"formats": sorted(set(given["formats"])), "library": given["library"]}
    return cache_key(target, [(k.item, k.task, k.name, k.reply) for k in kernels], how)


def _built(
    target: Target,
    kernels: Sequence[Planned],
    lock: Lock | None,
    session: DeviceSession | None,
    given: Mapping[str, Any],
) -> list[BuiltItem]:
    """Build, compare with the lock, write, and check on the device if there is one."""
    if lock is not None:
        check_plan(given["locked"], lock, target, [k.locked(None) for k in kernels])
    artifacts = [compiled(k.item, k.task, k.name, None if k.reply.as_written else k.reply.trace) for k in kernels]
    made = [k.locked(artifact) for k, artifact in zip(kernels, artifacts, strict=True)]
    if lock is not None:
        check_code(given["locked"], lock, made)
    out, library = given["out"], given["library"]
    shared: tuple[Path, ...] = ()
    if library:
        shared = write_library(artifacts, library, out, given["formats"])
    report = []
    for kernel, artifact in zip(kernels, artifacts, strict=True):
        files = shared if library or not out else write_each(artifact, kernel.name, out, given["formats"])
        report.append(_checked(kernel, artifact, files, session))
    if given["lock"]:
        write_lock(given["lock"], make_lock(target, given["release"], made))
    return report


def _own(item: Item, reply: BestReply) -> BestReply:
    """Return the reply as it applies to kernels of one's own.
    A config of another kernel says nothing about one with its own parameters. The best config is built even if the
    user's own baseline was faster."""
    if isinstance(item.what, CKernel) and item.what.rival is not None:
        reply = replace(reply, as_written=False)
    if reply.match != "nearest" or isinstance(item.what, WorkloadSpec | PrimFunc | HandSchedules):
        return reply
    return replace(reply, match="miss", trace=None, explain=("only other kernels have a config",))


def _require(kernels: Sequence[Planned], given: Mapping[str, Any]) -> None:
    """Raise NotTunedError where --require-tuned is given and a kernel is not tuned.
    Adapted configs don't count."""
    missing = [k for k in kernels if not k.reply.tuned]
    if not given["require_tuned"] or not missing:
        return
    if given["as_json"]:
        click.echo(json.dumps([item_json(BuiltItem(k.task, k.name, k.reply, None, (), None)) for k in kernels]))
    lines = "\n".join(f"    {k.task.name}: {'; '.join(k.reply.explain)}" for k in missing)
    release = given["release"]
    where = f" in release {release}" if release else ""
    target = missing[0].task.target
    where_at = [word for flag in ("key", "tracker", "device") if given[flag] for word in (f"--{flag}", given[flag])]
    tune = shlex.join(["tunefarm", "tune", *(_word(k) for k in missing), "--target", str(target), *where_at])
    hint = f"tune them, then make a release that has them: {tune}" if release else f"tune them: {tune}"
    if not given["target"] and not given["key"] and not given["device"]:
        cores = f", {counted(target.num_cores, 'core')}" if target.num_cores else ""
        hint += f"\n  or build for another target with --target: this is this machine's{cores}"
    lacking = f"{len(missing)} of {counted(len(kernels), 'kernel')} {'has' if len(missing) == 1 else 'have'} no config"
    raise NotTunedError(f"{lacking} for {target}{where}:\n{lines}", hint=hint)


def _word(kernel: Planned) -> str:
    """The word for it in `tunefarm tune`: its name, or FILE:NAME."""
    file = kernel.item.record.get("file")
    return f"{file}:{kernel.item.record['name']}" if file else kernel.task.name


def _check_flags(given: Mapping[str, Any]) -> None:
    """Raise a usage error for flags that do not go together."""
    if given["library"]:
        if not given["out"] and not given["cache_key"]:  # which writes nothing
            raise click.UsageError("--library needs --out, the folder it is written to")
        if not _C_NAME.fullmatch(given["library"]):
            raise click.BadParameter("letters, digits and _, as in C", param_hint="--library")
    if given["bisect"] and not given["check"]:
        raise click.UsageError("--bisect goes with --check")
    if given["lock"] and given["locked"]:
        raise click.UsageError("--lock writes a lock and --locked holds to one: give either")
    if given["tune_missing"] and given["release"]:
        raise click.UsageError("a release does not change: --tune-missing is for builds without one")
    if given["release"] and given["objective"] != "time":
        raise click.UsageError("the configs of a release are chosen already: --objective is for builds without one")


def _refuse_kernel_flags(given: Mapping[str, Any], what: str) -> None:
    for flag in ("library", "lock", "locked", "cache_key", "tune_missing"):
        if given[flag]:
            raise click.UsageError(f"--{flag.replace('_', '-')} is for kernels, not for {what}")


def _check_names(given: Sequence[str], workloads: int) -> None:
    """Raise a usage error unless each workload has a name of its own that C takes, or none is given."""
    if given and len(given) != workloads:
        wrong = f"{counted(len(given), 'name')} for {counted(workloads, 'workload')}"
        raise click.BadParameter(wrong, param_hint="--name")
    for name in given:
        problem = c_name_problem(name) if _C_NAME.fullmatch(name) else "C names are letters, digits and _"
        if problem:
            raise click.BadParameter(f"{name!r}: {problem}", param_hint="--name")
    if len(set(given)) != len(given):
        raise click.BadParameter("two kernels have the same name", param_hint="--name")


def function_name(task: TuningTask) -> str:
    """Return a C function's name made of the workload's: matmul_8_8_8_float32."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", task.name)


def _name(item: Item, task: TuningTask) -> str:
    return item.what.source_code.entry if isinstance(item.what, CKernel) else function_name(task)


def _checked(kernel: Planned, artifact: Artifact, files: tuple[Path, ...], session: DeviceSession | None) -> BuiltItem:
    """Return what was built, run on the device if there is one."""
    measured = None
    if session is not None:
        reference = compiled(kernel.item, kernel.task, kernel.name, None)
        measured = checked(session, artifact, reference)
    return BuiltItem(kernel.task, kernel.name, kernel.reply, artifact, files, measured)


def compiled(item: Item, task: TuningTask, name: str, trace: str | None) -> Artifact:
    """The kernel as function `name`, with the config that a trace's text says, or as it is written.

    Raises TuningError for a config that the kernel's space has not: it may come from anybody's records.
    """
    match item.what:
        case CKernel() as kernel:
            config = kernel.reference if trace is None else config_of(trace)
            kernel.space.check(config)
            made: PrimFunc | Artifact = kernel.source_code.named(name).compile(config, str(task.target))
        case FunctionKernel() as kernel:
            if trace is None:
                made = kernel.reference
            else:
                kernel.space.check(config := config_of(trace))
                made = kernel.make(config)
        case _:
            if trace is not None and values_of(trace):
                told = f"only the file that defines {task.name} says how to build it"
                raise TunefarmError(told, hint="name it: FILE:NAME")
            made = task.func if trace is None else apply_trace(task.func, Trace.from_json(trace)).func
    if isinstance(made, Artifact):
        return made
    return compile_artifact(runnable(made, task.target) if trace is None else made, task.target, name=name)
