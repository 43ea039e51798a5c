"""How many trials a search takes to come within 5 % of what a much longer one finds, cold and with a warm store.

    python benchmarks/convergence.py
    python benchmarks/convergence.py --workload matmul:512,512,512 --workload dense:16,1024,1024 --long 300

Every workload is tuned once with `--long` trials. Then, for each of `--seeds`, once without records ("cold", with the
model that comes with tunefarm) and once beginning with the long runs of the other workloads ("warm"). What a run says
of its own times is noisy, and the best of a thousand noisy times flatters itself; so every kernel that was a run's best
for a while is built again, and all of one workload are timed in one process, in turns: medians. `ratio` is the speed
that a short run ended with beside the long one's. On one thread, so that a busy neighbour disturbs less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir.ops import as_int
from tuner.build.process_builder import ProcessBuilder
from tuner.devices.supplies import LocalFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge, sketch_search
from tuner.interchange.transfer import Selection, read, write
from tuner.records.model import TrialPurpose
from tuner.records.store import RecordStore
from tuner.task import TuningTask

WORKLOADS = (
    "matmul:512,512,512", "matmul:384,768,192", "dense:16,1024,1024", "batch_matmul:12,128,64,128",
    "conv2d:1,64,56,56,64,3,3", "conv2d:1,256,14,14,256,3,3", "conv2d:1,256,28,28,128,1,1,1,0",
)  # fmt: skip
_NEAR = 0.95  # of the long run's speed
_TIMED_S = 0.01


@dataclass(frozen=True)
class Incumbent:
    """A kernel that was the run's best from its trial `number` on, which counts from 1."""

    number: int
    trace: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", help="this one; may be given often (default: seven)")
    parser.add_argument("--long", type=int, default=1000, help="trials of the run to compare with")
    parser.add_argument("--trials", type=int, default=64, help="trials of the others")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    workloads = args.workload or list(WORKLOADS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = stack.enter_context(Bench(folder))
        longs = {}
        for seed, workload in enumerate(workloads):
            longs[workload] = bench.run(workload, args.long, 1000 + seed)
            print(f"{workload}: {args.long} trials done", file=sys.stderr)
        print(f"{'workload':34}{'begun':>7}{'trials to 5 %':>15}{'ratio':>8}   trials of each seed")
        medians: dict[str, list[float]] = {"cold": [], "warm": []}
        for workload in workloads:
            others = [longs[other].store for other in workloads if other != workload]
            found = {
                "cold": [bench.run(workload, args.trials, seed) for seed in range(args.seeds)],
                "warm": [bench.run(workload, args.trials, seed, others) for seed in range(args.seeds)],
            }
            seconds = in_turns(bench.task(workload), [longs[workload], *found["cold"], *found["warm"]], args.rounds)
            best = seconds[longs[workload].incumbents[-1].trace]
            for begun, runs in found.items():
                needed = [trials_to(run, seconds, best / _NEAR) for run in runs]
                ratio = statistics.median(best / seconds[run.incumbents[-1].trace] for run in runs)
                medians[begun].append(statistics.median(needed))
                shown = ", ".join(f"{n:.0f}" if n < float("inf") else f"over {args.trials}" for n in needed)
                print(f"{workload:34}{begun:>7}{medians[begun][-1]:15.0f}{ratio:8.2f}   {shown}", flush=True)
    for begun, each in medians.items():
        print(f"{begun}: median workload {statistics.median(each):.0f}, worst {max(each):.0f}")


def cores() -> set[int]:
    return set(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Run:
    """A finished run: where its records are, and its incumbents in order."""

    store: Path
    incumbents: tuple[Incumbent, ...]


class Bench:
    """A private server with one thread on a core of its own, builders on the others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._target = Target(f"{Target.host()} -num-cores=1")
        self._runs = 0

    def __enter__(self) -> Bench:
        all_cores = cores()
        os.sched_setaffinity(0, {max(all_cores)})  # inherited by the server
        self._fleet = LocalFleet()
        others = all_cores - {max(all_cores)} or all_cores
        os.sched_setaffinity(0, others)  # inherited by the builders; this process stays there too
        self._builder = ProcessBuilder(len(others), import_main=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._builder.close()
        self._fleet.close()

    def task(self, workload: str) -> TuningTask:
        return TuningTask.from_spec(workload, self._target)

    def run(self, workload: str, trials: int, seed: int, known: Sequence[Path] = ()) -> Run:
        """One run; it knows the records of the stores `known` and leaves its own in a store of its own."""
        self._runs += 1
        path = self._folder / f"{self._runs}.db"
        with RecordStore.open(path, create=True) as store:
            for other in known:
                with RecordStore.open(other) as source:
                    write(store, read(source, Selection()))
            knowledge = Knowledge(store, warm=bool(known))
            search = sketch_search(self.task(workload), seed=seed, knowledge=knowledge)
            options = RunOptions(trials=trials, equal_failures=trials)
            outcome = tune([search], fleet=self._fleet, builder=self._builder, options=options, store=store)
            return Run(path, tuple(incumbents(store, outcome.snapshot.run_id)))


def incumbents(store: RecordStore, run: int) -> Iterator[Incumbent]:
    best = float("inf")
    searched = (trial for trial in store.trials.all(run) if trial.purpose is TrialPurpose.SEARCH)
    for number, trial in enumerate(searched, start=1):
        if trial.cost is not None and trial.trace is not None and trial.verified and trial.cost < best:
            best = trial.cost
            yield Incumbent(number, trial.trace)


def trials_to(run: Run, seconds: dict[str, float], enough: float) -> float:
    return next((float(i.number) for i in run.incumbents if seconds[i.trace] <= enough), float("inf"))


def in_turns(task: TuningTask, runs: Sequence[Run], rounds: int) -> dict[str, float]:
    """Seconds a call of every incumbent, by trace: the median of `rounds`, each of which times every kernel once."""
    rng = np.random.default_rng(0)
    buffers = [task.func.buffer_map[p] for p in task.func.params]
    shapes = [tuple(as_int(extent) or 1 for extent in buffer.shape) for buffer in buffers]
    held = [array(rng.standard_normal(shape).astype(buffer.dtype)) for shape, buffer in zip(shapes, buffers)]
    calls = {trace: kernel(task, trace) for trace in dict.fromkeys(i.trace for run in runs for i in run.incumbents)}
    times: dict[str, list[float]] = {trace: [] for trace in calls}
    for _ in range(rounds):
        for trace, call in calls.items():
            call(*held)
            began = time.perf_counter()
            number = 0
            while (spent := time.perf_counter() - began) < _TIMED_S:
                call(*held)
                number += 1
            times[trace].append(spent / number)
    return {trace: statistics.median(of) for trace, of in times.items()}


def kernel(task: TuningTask, trace: str) -> Callable[..., object]:
    func = apply_trace(task.func, Trace.from_json(trace)).func
    built: Callable[..., object] = load_artifact(compile_artifact(func, task.target, name="main"))["main"]
    return built


if __name__ == "__main__":
    main()
