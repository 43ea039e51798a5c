"""`tunefarm run`: run a model once, time it, profile it, and compare its results."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from tunefarm.cli.common import DB, FILE, FOLDER, OBJECTIVE, CheckFailedError, Number, Whole
from tunefarm.cli.completion import FileOrName, ReleaseName
from tunefarm.cli.models.place import ENTRY, OUTPUTS, open_place, profiled, results_of, run_once
from tunefarm.settings import Settings
from tuner.goals import Goal

if TYPE_CHECKING:
    from compiler.frontend.model_files import ModelFile
    from compiler.runtime.core.device import Device
    from compiler.runtime.vm.machine import VirtualMachine
    from tunefarm.cli.models.compare import Compared
    from tunefarm.cli.models.inputs import AnyArray
    from tunefarm.cli.models.place import ModelPlace
    from tunefarm.cli.models.run_outcome import RunOutcome
    from tunefarm.client import BestReply
    from tuner.kernels.model import ModelKernel
    from tuner.kernels.model_version import ModelSource
    from tuner.records.store import RecordStore

_EPILOG = """\b
Examples:
  tunefarm run model.onnx                            build, run and time it
  tunefarm run model.tunefarm --input x=image.npy --out results/
  tunefarm run model.onnx --dim batch=8 --profile    where the time goes
  tunefarm run model.onnx --compare onnxruntime --bisect
  tunefarm run model.onnx --key "cpu quiet" --json   on a tracker's device
  tunefarm run spec.py:network --trace trace.json    for ui.perfetto.dev
\b
Exit status: 0 done, 1 an error, 2 wrong usage, 4 --compare found a
difference.
"""

_LEAST_MS = 5  # of a timed repeat: short models run several times in it


@click.command(epilog=_EPILOG)
@click.argument("model", type=FileOrName(), metavar="MODEL")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=HOW", help="FILE.npy, random or zeros.  [default: random]"
)
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of a symbolic dimension.")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Seed of random inputs.")
@click.option("--target", help="Target to build for.  [default: the device's, or this machine's]")
@click.option("--repeat", type=Whole(0, 100_000), default=10, show_default=True, help="Timed runs; 0 for none.")
@click.option("--out", type=FOLDER, help="Folder for the results, a .npy file each.")
@click.option("--profile", is_flag=True, help="Show the time of each kernel.")
@click.option("--energy", is_flag=True, help="Show the energy of a run in joules, and the mean clock.")
@click.option("--trace", type=FILE, help="Write the kernels' times to this file, for Perfetto.")
@click.option(
    "--compare", "peer", type=click.Choice(["onnxruntime", "reference"]), help="Compare the results with these."
)
@click.option("--bisect", is_flag=True, help="With --compare onnxruntime: name the first operator that differs.")
@click.option("--rtol", type=Number(0), default=1e-3, show_default=True, help="Allowed relative difference of results.")
@click.option("--atol", type=Number(0), default=1e-4, show_default=True, help="Allowed absolute difference of results.")
@click.option("--key", help="Run on a device that the tracker lends for this key.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting]")
@click.option("--device", metavar="HOST:PORT", help="Run on this server.")
@click.option(
    "--record/--no-record", default=None, help="Keep the time and a profile.  [default: where there is a record store]"
)
@DB
@click.option(
    "--release", type=ReleaseName(), help="Build with the configs of this approved release of the record store."
)
@OBJECTIVE
@click.option("--untuned", is_flag=True, help="Build without the record store's configs; nothing is recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.pass_obj
def run(settings: Settings, /, model: str, **given: Any) -> RunOutcome:
    """Run MODEL once, print what it gives, and time it.

    Where there is a record store, the model is built with the best configs in it, and its time is kept there.

    MODEL is an ONNX file, what torch.export.save wrote (.pt2), torchvision:NAME, FILE.py:NAME of an IRModule or of a
    function that gives one, or a built model (.tunefarm). Python files and .pt2 files may run code, so take them from
    people you trust.
    """
    from compiler.frontend.model_files import is_model_file
    from tunefarm.cli.models.inputs import parse_pairs, parse_sizes
    from tuner.kernels.model_version import model_source

    if given["bisect"] and given["peer"] != "onnxruntime":
        raise click.UsageError("--bisect goes with --compare onnxruntime")
    sizes, chosen = parse_sizes(given["dims"]), parse_pairs(given["inputs"], "--input")
    named = model_source(model, sizes) if is_model_file(model) else None
    if named is None and given["peer"]:
        raise click.UsageError("--compare needs the model's own file: an artifact has no reference")
    outcome = _outcome(settings, model, named, sizes, chosen, given)
    if given["out"]:
        outcome.write(given["out"])
    if given["trace"] and outcome.report is not None:
        given["trace"].write_text(outcome.report.trace(), encoding="utf-8")
    if given["as_json"]:
        click.echo(json.dumps(outcome.to_json(with_profile=given["profile"])))
    else:
        outcome.show(with_profile=given["profile"], with_energy=given["energy"])
    if wrong := outcome.compared.wrong:
        raise CheckFailedError(
            f"{len(wrong)} of {len(outcome.compared.differences)} results differ from {given['peer']}'s; "
            f"{wrong[0].name} by up to {wrong[0].absolute:.3g}",
            hint=None if given["bisect"] else "--bisect names the first operator that differs",
        )
    return outcome


def _outcome(
    settings: Settings, model: str, named: ModelSource | None, sizes: Mapping[str, int], chosen: Mapping[str, str],
    given: Mapping[str, Any],
) -> RunOutcome:  # fmt: skip
    """Build the model if it is a source, run it, and do what the options ask for."""
    from tunefarm.cli.models.configs import shares_of, tuned_share
    from tunefarm.cli.models.inputs import make_inputs
    from tunefarm.cli.models.records import keep, registered
    from tunefarm.cli.models.run_outcome import RunOutcome

    source = named.read() if named is not None else None
    with ExitStack() as stack:
        place = stack.enter_context(open_place(settings, given))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(_records(settings, given)) if source is not None else None
        path, built_s = Path(model), None
        kernels, known = _configs(store, named, place, given["release"] or "", Goal(given["objective"]))
        if source is not None:
            path, built_s = _build(source, place.target, folder, known)
        machine, device = place.machine(path)
        interface = machine.interface(ENTRY)
        names = source.inputs if source is not None else tuple(param.name for param in interface.params)
        arrays = make_inputs(interface, names, chosen, sizes, given["seed"])
        results = run_once(machine, device, arrays)
        noted = _noted(path) if source is None else {}
        labels = source.outputs if source is not None else tuple(json.loads(noted.get(OUTPUTS, "[]")))
        if len(labels) != len(results):
            labels = tuple(f"output {at}" for at in range(len(results)))
        outputs = dict(zip(labels, results, strict=True))
        before = place.begin()
        seconds = _timed(machine, device, arrays, given["repeat"])
        drawn, why_not = place.drawn(before)
        if "watts" in drawn and seconds:
            drawn["joules"] = drawn["watts"] * median(seconds)
        keeps = store is not None and bool(seconds)
        report = profiled(machine, device, arrays) if given["profile"] or given["trace"] or keeps else None
        recorded = None
        if keeps and store is not None and named is not None:
            version = given.get("version") or registered(store, named, str(place.target))
            recorded = keep(
                store, version, place.device(), str(place.target), seconds, report, kernels, known,
                release=given["release"] or "", is_here=place.session is None, drawn=drawn,
            )  # fmt: skip
        share = tuned_share(shares_of(report, kernels, known), known) if report is not None and known else None
        path_of_model = named.path if named is not None else None
        return RunOutcome(
            model=model, name=named.name if named is not None else model, target=str(place.target), outputs=outputs,
            seconds=seconds, built_s=built_s, report=report, recorded=recorded,
            tuned_share=share, drawn=drawn, energy_not_told=why_not, origin=_origin(noted),
            compared=_compared(path_of_model, source, place, folder, known, arrays, outputs, sizes, given),
        )  # fmt: skip


def _configs(
    store: RecordStore | None, named: ModelSource | None, place: ModelPlace, release: str, goal: Goal
) -> tuple[tuple[ModelKernel, ...], dict[str, BestReply]]:
    """The kernels of the model on the place's target, and the stored configs by workload.
    None without a store."""
    from compiler.target.target import Target
    from tunefarm.cli.models.configs import stored_configs
    from tuner.kernels.model_version import plan_of

    if store is None or named is None:
        return (), {}
    target = Target(place.target).resolved()
    kernels = plan_of(named, target.kind.name).kernels
    device_class = place.device().fingerprint.device_class
    return kernels, stored_configs(store, kernels, str(target), device_class, release, goal)


def _compared(
    path: Path | None, source: ModelFile | None, place: ModelPlace, folder: Path, known: Mapping[str, BestReply],
    arrays: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray], sizes: Mapping[str, int], given: Mapping[str, Any],
) -> Compared:  # fmt: skip
    """The results beside those of the program that --compare names."""
    from tunefarm.cli.models.compare import Compared, compare_results

    if path is None or source is None or not given["peer"]:
        return Compared()

    def rerun(cut: ModelFile) -> Any:
        return results_of(*place.machine(_build(cut, place.target, folder, known)[0]), arrays)

    bisect = (sizes, rerun) if given["bisect"] else None
    return compare_results(given["peer"], source, path, arrays, outputs, given["rtol"], given["atol"], bisect)


def _origin(noted: Mapping[str, str]) -> dict[str, str]:
    """The origin that an artifact names."""
    known = {name: value for name, value in noted.items() if name != OUTPUTS}
    return known if {"model", "version"} <= set(known) else {}


def _noted(path: Path) -> dict[str, str]:
    """Return what a built model says of itself."""
    from compiler.runtime.load import load_module
    from compiler.runtime.vm.vm_executable import VMModule

    module = load_module(str(path))
    return dict(module.meta) if isinstance(module, VMModule) else {}


def _records(settings: Settings, given: Mapping[str, Any]) -> AbstractContextManager[RecordStore | None]:
    """The store to build with and to record in.
    Raises a usage error for options that contradict each other."""
    from tunefarm.cli.models.records import open_records

    if given["untuned"] and (given["record"] or given["release"]):
        raise click.UsageError("--untuned goes with neither --record nor --release")
    if given["release"] and given["objective"] != "time":
        raise click.UsageError("the configs of a release are chosen already: --objective goes without one")
    return open_records(settings, given["db"], False if given["untuned"] else given["record"])


def _build(source: ModelFile, target: Any, folder: Path, known: Mapping[str, BestReply]) -> tuple[Path, float]:
    """The model as an artifact in the folder, and the seconds that it took.
    `known`: configs by workload key."""
    from compiler.driver.kernel_schedules import kernel_schedules
    from tunefarm import relax
    from tunefarm.model_schedules import schedules_of

    began = time.perf_counter()
    with kernel_schedules(schedules_of(known)) if known else nullcontext():
        executable = relax.build(source.module, target, exec_mode="compiled")
    path = folder / f"{source.name}.tunefarm"
    executable.export_library(str(path))
    return path, time.perf_counter() - began


def _timed(machine: VirtualMachine, device: Device, arrays: Mapping[str, AnyArray], repeat: int) -> list[float]:
    import tunefarm as tvm

    if not repeat:
        return []
    evaluate = machine.time_evaluator(ENTRY, device, number=1, repeat=repeat, min_repeat_ms=_LEAST_MS)
    return list(evaluate(*(tvm.nd.array(value, device) for value in arrays.values())).results)
