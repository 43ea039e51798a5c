"""Whole models, untuned and tuned, beside other runtimes: time a call, build and tuning time, memory, correctness.

    python benchmarks/models.py
    python benchmarks/models.py --models resnet18 bert --trials 64 --threads 1 2
    python benchmarks/models.py --peers onnxruntime,openvino,torch,tvm --python onnxruntime=/path/bin/python …

Each model is one ONNX file with random weights. Every runtime has a process of its own, and the processes take turns:
a round is one sample of each. Milliseconds are medians of rounds. `--cpu` takes the processor's time instead of the
clock's, which is fair on a machine that others use, for one thread. Results are compared with onnx's reference
evaluator in float64. `--trials` is a budget for each kernel of a model; 0 leaves the tuned row out. With
`--mean-trials 16 --trials 64` a model gets 16 trials for each of its kernels, and the tuner spends at most 64 on one:
most where most time is to be saved. `metaschedule` is TVM, tuned with as many trials. Peers run with float32
arithmetic, the threads that are asked for and their settings for latency; see benchmarks/peers/models.py.
With `--precision bfloat16` our products, OpenVINO's and torch's are of bfloat16; with `--precision int8` every runtime
gets the model as onnxruntime quantises it (QDQ).

Untuned kernels are drafted, each build as if it were the machine's first. The record store is empty. A star marks
models whose kernels the shipped cost model has not seen. `--without-model` adds a row drafted without it. At the end
come geometric means of the ratios, and how fast the machine was: its peaks are measured before each model's rounds,
as others may use its memory and caches, too. `--profile` writes the ten longest kernels of each model as Markdown,
with what limits them.

`--keep` is a folder for what is built and tuned. A later run of the same models with it only times them: runtimes are
compared within minutes, while a machine that others use, too, is at its best. It does not notice that the compiler or
the machine changed: each machine needs a folder of its own, and `--rebuild` builds all models of a folder again with
the compiler as it is now, tuned ones from the records of their tuning. Those that have no records there are tuned
again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from model_parts.networks import HELD_OUT, NETWORKS
from model_parts.peer_process import PeerProcess, take_turns
from model_parts.precisions import PRECISIONS, TOLERANCES, by_reference, quantised, shortened
from model_parts.profiles import profile_section
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

if TYPE_CHECKING:
    from compiler.runtime.measure.peaks import Peaks

HERE = Path(__file__).parent
MODELS = (
    "resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "squeezenet", "bert",
    "mobilenet_v3", "densenet", "convnext", "vit", "llama",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(NETWORKS), default=list(MODELS))
    parser.add_argument("--peers", default="", help="of onnxruntime,openvino,torch,tvm,metaschedule")
    parser.add_argument("--python", nargs="*", default=[], help="PEER=PYTHON: an environment that has the peer")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, len(os.sched_getaffinity(0))])
    parser.add_argument("--trials", type=int, default=0, help="for each kernel; 0: untuned only")
    parser.add_argument("--mean-trials", type=int, help="what a kernel gets on average (default: --trials)")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help="of our models and the peers'")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cpu", action="store_true", help="the processor's time, not the clock's")
    parser.add_argument(
        "--without-model", action="store_true", help="a row drafted without the shipped cost model, too"
    )
    parser.add_argument("--profile", type=Path, help="the file for the longest kernels of each model")
    parser.add_argument("--keep", type=Path, help="a folder for built and tuned models, which a later run takes")
    parser.add_argument("--rebuild", action="store_true", help="build the models in --keep again, from their records")
    parser.add_argument("--quick", action="store_true", help="small networks, one thread, one trial and round")
    args = parser.parse_args()
    if args.rebuild and not args.keep:
        parser.error("--rebuild needs --keep FOLDER, where the records are")
    if args.quick:
        chosen = args.models if args.models != list(MODELS) else list(NETWORKS)
        args.models = [name for name in chosen if name.startswith("small")]
        args.threads, args.trials, args.rounds, args.without_model = [1], 1, 1, True
    os.environ["TUNEFARM_DRAFT_CACHE"] = ""
    pythons = dict(item.split("=", 1) for item in args.python)
    print("| model | threads | runtime | ms | of the fastest peer | build s | tuning s | trials | MB | error |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    ratios: dict[tuple[int, str], list[float]] = {}
    peaks: dict[int, list[Peaks]] = {}
    kinds = [Kind("tunefarm untuned")]
    kinds += [Kind("tunefarm without model", with_model=False)] if args.without_model else []
    kinds += [Kind("tunefarm tuned", args.trials, mean_trials=args.mean_trials or args.trials)] if args.trials else []
    peers = [peer for peer in args.peers.split(",") if peer]
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    with nullcontext(str(args.keep)) if args.keep else tempfile.TemporaryDirectory() as name:
        for model in args.models:
            case = Case.make(model, Path(name), args.precision, args.rebuild)
            for threads in dict.fromkeys(args.threads):
                for row in rows(case, threads, kinds, peers, pythons, args.rounds, args.cpu, ratios, peaks):
                    print(row, flush=True)
            if args.profile:
                with args.profile.open("a") as page:
                    page.write(profile_section(model, case.built(1, kinds[-1]), case.inputs))
    for (threads, title), found in sorted(ratios.items()):
        print(f"\n{title}, {threads} threads: {statistics.geometric_mean(found):.2f} of the fastest peer, "
              f"least {min(found):.2f}, {len(found)} models")  # fmt: skip
    for threads, measured in sorted(peaks.items()):
        print(f"\nthe machine, {threads} threads: {least_to_most([p.flops for p in measured])} GFLOP/s, "
              f"{least_to_most([p.bytes for p in measured])} GB/s")  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """How a model is built: with at most so many trials for each kernel, or drafted, with the shipped cost model or
    without. All kernels together get `mean_trials` each."""

    title: str
    trials: int = 0
    with_model: bool = True
    mean_trials: int = 0

    def file(self, model: Path, *parts: object) -> Path:
        """The file beside a model's where it is built, named by `parts`, too."""
        return model.with_suffix(f".{'.'.join(map(str, [*parts, self.title.replace(' ', '-')]))}.tunefarm")


@dataclass(frozen=True)
class Case:
    """A model's file, its inputs, and what float64 makes of them. `rebuild`: from the records of an earlier tuning."""

    name: str
    model: Path
    inputs: Path
    wanted: Any
    precision: str = "float32"
    rebuild: bool = False
    made: dict[tuple[int, str], Path] = field(default_factory=dict)

    def built(self, threads: int, kind: Kind) -> Path:
        """The model as a file, built before or now."""
        if (threads, kind.title) not in self.made:
            self.made[threads, kind.title] = kept(self, threads, kind).path
        return self.made[threads, kind.title]

    @staticmethod
    def make(name: str, folder: Path, precision: str = "float32", rebuild: bool = False) -> Case:
        made = NETWORKS[name]()
        path, inputs = folder / f"{name}.onnx", folder / f"{name}.npz"
        rng, given = np.random.default_rng(1), {}
        for item in made.graph.input:
            shape = [size.dim_value for size in item.type.tensor_type.shape.dim]
            whole = item.type.tensor_type.elem_type == TensorProto.INT64
            data = rng.integers(0, 30000, shape) if whole else rng.standard_normal(shape).astype("float32")
            given[item.name] = data
        np.savez(inputs, **given)
        made = quantised(made, given) if precision == "int8" else made
        onnx.save(made, path)
        wanted = by_reference(made, given) if precision == "int8" else in_float64(made, given)
        return Case(name, path, inputs, wanted, precision, rebuild)


def in_float64(model: Any, given: dict[str, Any]) -> Any:
    """The model's result with every float32 as float64. Changes the model."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name))
    for item in (*model.graph.input, *model.graph.output):
        if item.type.tensor_type.elem_type == TensorProto.FLOAT:
            item.type.tensor_type.elem_type = TensorProto.DOUBLE
    wide = {name: data.astype("float64") if data.dtype == "float32" else data for name, data in given.items()}
    return ReferenceEvaluator(model).run(None, wide)[0]


class Runtime(PeerProcess):
    """A process that has one model ready. `title` is its row's."""

    def __init__(
        self, title: str, python: str, peer: str, model: Path, case: Case, threads: int, made: Made, trials: int = 0
    ) -> None:
        self.made = made
        output = model.with_suffix(f".{title.replace(' ', '-')}.npy")
        command = [python, HERE / "peers" / "models.py", peer, model, case.inputs, output, threads]
        super().__init__(title, [*command, case.precision, trials], output)
        self.error = "fails" if self.ready is None else self.compared(case.wanted, TOLERANCES[case.precision])

    def milliseconds(self, cpu: bool) -> float:
        return statistics.median(sample["cpu_ms" if cpu else "ms"] for sample in self.samples)


@dataclass(frozen=True)
class Made:
    """How a model came to be: seconds, and trials."""

    build_s: float | None = None
    tuning_s: float = 0.0
    trials: int = 0
    path: Path = field(default=Path())


def rows(
    case: Case, threads: int, kinds: list[Kind], peers: list[str], pythons: dict[str, str], rounds: int, cpu: bool,
    ratios: dict[tuple[int, str], list[float]], peaks: dict[int, list[Peaks]],
) -> list[str]:  # fmt: skip
    """The table's rows of one model on so many threads. Adds to `ratios`, by threads and title, and to `peaks`."""
    with ExitStack() as closing:
        ready = []
        for kind in kinds:
            made = kept(case, threads, kind)
            case.made[threads, kind.title] = made.path
            ready.append(Runtime(kind.title, sys.executable, "tunefarm", made.path, case, threads, made))
        for peer in peers:
            trials = max(kind.mean_trials for kind in kinds)
            python = pythons.get(peer, sys.executable)
            ready.append(Runtime(peer, python, peer, case.model, case, threads, Made(), trials))
        for runtime in ready:
            closing.callback(runtime.close)
        running = [runtime for runtime in ready if runtime.ready is not None]
        peaks.setdefault(threads, []).append(peaks_now(threads))
        take_turns(running, rounds)
        others = [runtime.milliseconds(cpu) for runtime in running if runtime.title in peers]
        for runtime in running if others else []:
            if runtime.title not in peers:
                key = threads, f"{runtime.title}{', unseen models' if case.name in HELD_OUT else ''}"
                ratios.setdefault(key, []).append(min(others) / runtime.milliseconds(cpu))
        return [row(case, threads, runtime, min(others, default=None), cpu) for runtime in ready]


def peaks_now(threads: int) -> Peaks:
    """The machine's peaks as it is now: others may use it, too."""
    from compiler.runtime.measure.peaks import measured_peaks

    measured_peaks.cache_clear()
    return measured_peaks(threads)


def least_to_most(rates: Sequence[float]) -> str:
    """Rates in thousand millions a second."""
    return f"{min(rates) / 1e9:.0f} to {max(rates) / 1e9:.0f}"


def row(case: Case, threads: int, runtime: Runtime, fastest: float | None, cpu: bool) -> str:
    cells = [f"{case.name}{' *' if case.name in HELD_OUT else ''}", str(threads), runtime.title]
    if runtime.ready is None:
        return f"| {' | '.join([*cells, 'fails', *[''] * 6])} |"
    spent, made = runtime.milliseconds(cpu), runtime.made
    if made.build_s is None:
        tuning_s, trials = runtime.ready.get("tuning_s", 0.0), int(runtime.ready.get("trials", 0))
        made = Made(runtime.ready["ready_s"] - tuning_s, tuning_s, trials)
    build_s = made.build_s
    cells += [f"{spent:.2f}", "" if fastest is None else f"{fastest / spent:.2f}", f"{build_s:.1f}"]
    cells += [f"{made.tuning_s:.0f}" if made.trials else "", str(made.trials or "")]
    cells += [f"{runtime.ready['megabytes']:.0f}", runtime.error]
    return f"| {' | '.join(cells)} |"


def kept(case: Case, threads: int, kind: Kind) -> Made:
    """The model as a file beside the case's: built before with as many trials, or now."""
    path = kind.file(case.model, case.precision, threads)
    note, asked = path.with_suffix(".json"), [kind.trials, kind.mean_trials]
    known = json.loads(note.read_text()) if path.exists() and note.exists() else {}
    before = None if known.get("asked") != asked else Made(known["build_s"], known["tuning_s"], known["trials"], path)
    if before is not None and not case.rebuild:
        return before
    made = build(case, threads, kind, path, before)
    note.write_text(
        json.dumps({"asked": asked, "build_s": made.build_s, "tuning_s": made.tuning_s, "trials": made.trials})
    )
    return made


def build(case: Case, threads: int, kind: Kind, path: Path, before: Made | None = None) -> Made:
    """The model as a file for this machine, its kernels tuned or drafted. A tuned model's records are beside it, and
    those of `before` are taken instead of new ones."""
    from compiler.target.target import Target
    from tunefarm import meta_schedule, relax
    from tunefarm.relax.frontend.onnx import from_onnx
    from tuner.faces import kernel_schedules as drafts

    target = Target(f"{Target.host()} -num-cores={threads}")
    began = time.perf_counter()
    module = from_onnx(onnx.load(case.model))
    module = shortened(module) if case.precision == "bfloat16" else module
    drafts._picked.clear()
    if not kind.trials:
        with without_model() if not kind.with_model else nullcontext():
            relax.build(module, target, exec_mode="compiled").export_library(str(path))
        return Made(time.perf_counter() - began, path=path)
    integration, records = meta_schedule.relax_integration, path.with_suffix(".records")
    again = before is not None and records.exists()
    started = time.perf_counter()
    total = kind.mean_trials * len(integration.extract_tasks(module, target))
    database: Any
    if again:
        database = meta_schedule.database.JSONDatabase(work_dir=str(records))
    else:
        shutil.rmtree(records, ignore_errors=True)
        database = integration.tune_relax(
            module, None, target, str(records), total, max_trials_per_task=kind.trials, seed=0
        )
    tuning_s = time.perf_counter() - started
    integration.compile_relax(database, module, target, None).export_library(str(path))
    build_s = time.perf_counter() - began - tuning_s
    return Made(build_s, before.tuning_s if before is not None and again else tuning_s, total, path)


def without_model() -> AbstractContextManager[object]:
    """Builds inside draft without the shipped cost model."""
    from compiler.driver.kernel_schedules import KernelSchedules, kernel_schedules
    from tuner.search.drafted import drafted

    def pick(func: Any, target: Any) -> Any:
        found = drafted(func, target, with_model=False)
        return None if found is None else found.func

    return kernel_schedules(KernelSchedules(pick=pick))


if __name__ == "__main__":
    main()
