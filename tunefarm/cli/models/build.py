"""`tunefarm build` of whole models.

Configs for all kernels in one request, and the share of the time they cover.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from compiler.driver.graph import build_graph
from compiler.driver.kernel_schedules import KernelSchedules, kernel_schedules
from compiler.errors import TunefarmError
from compiler.frontend.model_files import ModelFile, read_model_file
from compiler.runtime.measure.report import Report
from compiler.target.target import Target
from compiler.tir.text.print_func import workload_key
from tunefarm.cli.common import CheckFailedError, NotTunedError
from tunefarm.cli.models.compare import Compared, compare_results
from tunefarm.cli.models.configs import how, kernel_of
from tunefarm.cli.models.inputs import make_inputs, parse_sizes
from tunefarm.cli.models.place import ENTRY, OUTPUTS, ModelPlace, open_place, profiled, results_of, run_once
from tunefarm.client import BestReply, Client
from tunefarm.model_schedules import schedules_of
from tunefarm.settings import Settings
from tuner.families.record import FamilyRecord
from tuner.kernels.model import ModelFamily, ModelKernel
from tuner.kernels.model_version import ModelPlan, model_source, plan_of_module
from tuner.number_text import duration

RTOL, ATOL = 1e-3, 1e-4


@dataclass(frozen=True)
class ModelBuildRow:
    """A kernel of a model, its config, and the seconds that it takes of a run (None: not run)."""

    kernel: ModelKernel
    reply: BestReply
    how: str
    seconds: float | None

    @property
    def expected(self) -> float | None:
        """The seconds of its calls by its config's measurements.
        None for a kernel without a config of its own."""
        return None if self.reply.cost_s is None else self.kernel.weight * self.reply.cost_s


@dataclass(frozen=True)
class BuiltSizes:
    """A kernel whose sizes only a call tells, the record it was built with, and what it takes of a run."""

    family: ModelFamily
    record: FamilyRecord | None
    seconds: float | None


@dataclass(frozen=True)
class BuiltModel:
    """A built model. `seconds`: all its kernels of one run; None: not run."""

    model: str
    target: str
    path: Path
    kernels: tuple[ModelBuildRow, ...]
    families: tuple[BuiltSizes, ...]
    seconds: float | None
    compared: Compared

    @property
    def expected(self) -> float | None:
        """The seconds of a run of the kernels whose configs were measured; None without such a kernel."""
        known = [kernel.expected for kernel in self.kernels if kernel.expected is not None]
        return sum(known) if known else None

    @property
    def tuned_share(self) -> float | None:
        """The share of the kernels' time that kernels with configs of their own take."""
        if not self.seconds:
            return None
        tuned = sum(kernel.seconds or 0.0 for kernel in self.kernels if kernel.reply.tuned)
        return (tuned + sum(family.seconds or 0.0 for family in self.families if family.record)) / self.seconds


def build_model(settings: Settings, file: str, given: Mapping[str, Any]) -> None:
    """Build the model in a file, write it to the folder `given["out"]`, and report.

    Raises NotTunedError if `require_tuned` or `require_tuned_time` is not met, and CheckFailedError for a wrong
    result. It also raises what the frontend and the web app's client raise.
    """
    sizes = parse_sizes(given["dims"])
    source = read_model_file(file).with_sizes(sizes)
    with open_place(settings, given) as place:
        target = Target(place.target).resolved()
        plan = plan_of_module(source.module, target)
        kernels = plan.kernels
        with Client(given["api"] or settings.api, token=settings.api_token) as client:
            replies = client.best_batch(
                [kernel.func for kernel in kernels], str(target), given["device_class"], release=given["release"],
                nearest=not given["no_adapt"], objective=given["objective"],
            )  # fmt: skip
            records = [_record(client, family, target, given) for family in plan.families]
        known = {workload_key(kernel.func): reply for kernel, reply in zip(kernels, replies, strict=True)}
        if given["require_tuned"]:
            _require(file, plan, replies, records)
        with tempfile.TemporaryDirectory() as folder:
            schedules = schedules_of(known, [record for record in records if record])
            origin = _origin(file, sizes, given["release"])
            path = _write(source, target, schedules, given["out"] or Path(folder), origin)

            def build(cut: ModelFile) -> Path:
                return _write(cut, target, schedules, Path(folder), {})

            built = _examined(source, file, place, path, plan, replies, records, given, sizes, build)
    if given["as_json"]:
        click.echo(json.dumps(_as_json(built, given["out"])))
    else:
        _print(built, given["out"])
    least, share = given["require_tuned_time"], built.tuned_share
    if least is not None and (share is None or share < least):
        raise NotTunedError(
            f"{0.0 if share is None else share:.0%} of the kernels' time is tuned, {least:.0%} is asked for",
            hint=_how_to_tune_more(built, file),
        )
    if wrong := built.compared.wrong:
        raise CheckFailedError(
            f"the result {wrong[0].name} differs by up to {wrong[0].absolute:.3g}",
            hint=None if given["bisect"] else "--check --bisect names the first operator that differs",
        )


def _how_to_tune_more(built: BuiltModel, file: str) -> str:
    """Return advice for a model whose tuned kernels have too small a share of the time."""
    kernels, families = built.kernels, built.families
    if all(kernel.reply.tuned for kernel in kernels) and all(family.record for family in families):
        return "every kernel worth tuning is tuned; the rest of the time is of kernels too small for it: ask for less"
    return f"tune the model: tunefarm tune {file}"


def _record(client: Client, family: ModelFamily, target: Target, given: Mapping[str, Any]) -> FamilyRecord | None:
    found = client.family(family.spec.key, target, given["device_class"], release=given["release"])
    return None if found is None else FamilyRecord.from_json(found.record)


def _origin(file: str, sizes: Mapping[str, int], release: str | None) -> dict[str, str]:
    """The origin in the artifact: the model's name, its version in the record store, and the release."""
    named = model_source(file, sizes)
    return {"model": named.name, "version": named.digest, "release": release or ""}


def _write(
    source: ModelFile, target: Target, schedules: KernelSchedules, folder: Path, origin: Mapping[str, str]
) -> Path:  # fmt: skip
    with kernel_schedules(schedules):
        executable = build_graph(source.module, target, exec_mode="compiled")
    executable.mod.note({**origin, OUTPUTS: json.dumps(source.outputs)})
    path = folder / f"{source.name}.tunefarm"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        executable.export_library(str(path))
    except OSError as error:
        raise TunefarmError(f"cannot write {path}: {error.strerror}", hint="give another folder with --out") from None
    return path


def _examined(
    source: ModelFile, file: str, place: ModelPlace, path: Path, plan: ModelPlan, replies: list[BestReply],
    records: list[FamilyRecord | None], given: Mapping[str, Any], sizes: Mapping[str, int],
    build: Callable[[ModelFile], Path],
) -> BuiltModel:  # fmt: skip
    """Run the model if asked to: for its check, and for the times of its kernels.
    `build` builds parts of it in the same way."""
    seconds: dict[str, float] = {}
    compared = Compared()
    if given["check"] or given["require_tuned_time"] is not None or place.session is not None:
        machine, device = place.machine(path)
        arrays = make_inputs(machine.interface(ENTRY), source.inputs, {}, sizes, 0)
        results = run_once(machine, device, arrays)
        seconds = _seconds(profiled(machine, device, arrays))
        if given["check"]:
            named = len(source.outputs) == len(results)
            names = source.outputs if named else [f"output {i}" for i in range(len(results))]

            def rerun(cut: ModelFile) -> Any:
                return results_of(*place.machine(build(cut)), arrays)

            peer = "onnxruntime" if given["bisect"] or _has_onnxruntime(file) else "reference"
            outputs = dict(zip(names, results, strict=True))
            bisect = (sizes, rerun) if given["bisect"] else None
            compared = compare_results(peer, source, Path(file), arrays, outputs, RTOL, ATOL, bisect)
    built = [
        ModelBuildRow(
            kernel, reply, how(reply),
            sum(seconds.get(name, 0.0) for name in kernel.names) if seconds else None,
        )
        for kernel, reply in zip(plan.kernels, replies, strict=True)
    ]  # fmt: skip
    sized = [
        BuiltSizes(family, record, sum(seconds.get(name, 0.0) for name in family.names) if seconds else None)
        for family, record in zip(plan.families, records, strict=True)
    ]
    whole = sum(seconds.values()) if seconds else None
    target = str(place.target)
    return BuiltModel(source.name, target, path, tuple(built), tuple(sized), whole, compared)


def _seconds(report: Report) -> dict[str, float]:
    """The time of each kernel of a run, by its name."""
    found: dict[str, float] = {}
    for call in report.calls:
        name, took = kernel_of(call), call["Duration (us)"]
        found[name] = found.get(name, 0.0) + float(getattr(took, "microseconds", 0.0)) * 1e-6
    return found


def _has_onnxruntime(file: str) -> bool:
    from importlib.util import find_spec

    return file.endswith(".onnx") and find_spec("onnxruntime") is not None


def _require(file: str, plan: ModelPlan, replies: list[BestReply], records: list[FamilyRecord | None]) -> None:
    missing = [kernel.name for kernel, reply in zip(plan.kernels, replies, strict=True) if not reply.tuned]
    missing += [str(family.spec) for family, record in zip(plan.families, records, strict=True) if record is None]
    whole = len(plan.kernels) + len(plan.families)
    if missing:
        raise NotTunedError(
            f"{len(missing)} of the {whole} kernels of {file} have no config: {', '.join(missing[:8])}"
            + (", …" if len(missing) > 8 else ""),
            hint=f"tune them: tunefarm tune {file}; or ask for a share of the time: --require-tuned-time 95%",
        )


def _as_json(built: BuiltModel, out: Path | None) -> dict[str, Any]:
    return {
        "model": built.model,
        "target": built.target,
        "artifact": str(built.path) if out else None,
        "seconds": built.seconds,
        "expected_seconds": built.expected,
        "tuned_share": built.tuned_share,
        "checked": bool(built.compared.differences),
        **built.compared.to_json(),
        "kernels": [
            {
                "kernel": kernel.kernel.name, "calls": kernel.kernel.weight, "config": kernel.how,
                "workload_key": workload_key(kernel.kernel.func), "digest": kernel.reply.digest,
                "joules": kernel.reply.joules, "explain": list(kernel.reply.explain), "seconds": kernel.seconds,
                "expected_seconds": kernel.expected,
            }
            for kernel in built.kernels
        ],
        "families": [
            {
                "kernel": str(each.family.spec), "calls": each.family.weight, "config": _how_sized(each),
                "family_key": each.family.spec.key, "symbols": list(each.family.spec.symbols),
                "configs": [str(config) for config in each.record.configs] if each.record else [],
                "sizes": each.record.sizes.to_json() if each.record else None,
                "rule": each.record.rule.to_json() if each.record else None, "seconds": each.seconds,
            }
            for each in built.families
        ],
    }  # fmt: skip


def _how_sized(each: BuiltSizes) -> str:
    return "hit" if each.record else "untuned"


def _print(built: BuiltModel, out: Path | None) -> None:
    from rich.table import Table

    from tunefarm.cli.tables import show_table

    table = Table("kernel", "calls", "config", "time", "share", box=None)
    whole = built.seconds or built.expected
    for kernel in built.kernels:
        took = kernel.expected if built.seconds is None else kernel.seconds
        table.add_row(kernel.kernel.name, str(kernel.kernel.weight), kernel.how, *_time_and_share(took, whole))
    for each in built.families:
        sizes = f" at {len(each.record.sizes.sizes)} sizes" if each.record else ""
        name, calls = str(each.family.spec), str(each.family.weight)
        table.add_row(name, calls, _how_sized(each) + sizes, *_time_and_share(each.seconds, whole))
    show_table(table, "kernel")
    tuned = sum(kernel.reply.tuned for kernel in built.kernels)
    tuned += sum(each.record is not None for each in built.families)
    covered = "" if built.tuned_share is None else f", {built.tuned_share:.0%} of the kernels' time"
    click.echo(f"{tuned} of {len(built.kernels) + len(built.families)} kernels tuned{covered}")
    if built.seconds is None and built.expected is not None:
        click.echo(f"not run: the times, {duration(built.expected)} together, are those of the configs' trials")
    for line in built.compared.lines():
        click.echo(line)
    if out:
        click.echo(f"written: {built.path}")


def _time_and_share(seconds: float | None, whole: float | None) -> tuple[str, str]:
    """A kernel's time, and its share of the whole; "" for what is not known."""
    if seconds is None:
        return "", ""
    return duration(seconds), f"{seconds / whole:.1%}" if whole else ""
