"""Record whole search spaces for benchmarks/strategies.py and the shipped cost model.

    python benchmarks/record_spaces.py                      # all workloads, into benchmarks/data/FAMILY/
    python benchmarks/record_spaces.py --only matmul:64,64,64 --data /tmp/spaces

FAMILY is this machine's target family; recordings of others are left alone. Workloads are tuned for one thread. A space
is thinned, value by value of the decisions that have most, until it has at most `--points` points. Of large workloads
`--drawn-points` are drawn instead: the model learns from them, and no strategy is played on them. Every point is built,
and timed by the engine on a private server that is pinned to one core, in a random order. The least of many single
calls counts, which a busy machine disturbs least; of a product as large as 1024 x 1024 x 1024, what is clearly slower
than the fastest is called once or twice only. A workload whose file exists is skipped without `--again`, so a recording
that was stopped goes on. All of it takes about seven minutes on two cores that have nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from recorded_spaces import DATA, RecordedSpace, draw_points, path_of, task_of, thinned, write

from compiler.target.target import Target
from tuner.build.process_builder import ProcessBuilder
from tuner.devices.supplies import LocalFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_task
from tuner.model.machine import target_family
from tuner.records.model import TrialPurpose
from tuner.records.store import RecordStore
from tuner.search.base import Candidate
from tuner.space.generate import generate

WORKLOADS = (
    "matmul:64,64,64", "matmul:128,128,128", "matmul:192,192,192", "matmul:100,75,130", "matmul:256,64,512",
    "matmul:16,512,256", "dense:64,128,128", "dense:32,96,200", "batch_matmul:4,48,64,48",
    "batch_matmul:8,32,32,64", "conv2d:1,16,28,28,32,3,3", "conv2d:1,32,14,14,32,3,3", "conv2d:1,16,28,28,16,3,3,2,1",
    "conv2d:1,32,14,14,64,1,1,1,0", "conv2d:1,64,14,14,32,1,1,1,0",
)  # fmt: skip
DRAWN = (
    "matmul:512,512,512", "matmul:509,1021,257", "matmul:1024,1024,1024",  # operands in several caches
    "matmul:16,1024,1024", "dense:16,1024,1024", "matmul:4,2048,1024", "matmul:16,2048,2048",  # few rows
    "dense:32,1024,2048",
    "conv2d:1,64,28,28,64,3,3", "conv2d:1,256,14,14,256,1,1,1,0", "depthwise_conv2d:1,64,28,28,3,3",
    "conv2d:1,192,56,56,64,1,1,1,0", "conv2d:1,384,28,28,128,1,1,1,0", "conv2d:1,768,14,14,512,1,1,1,0",
)  # fmt: skip
"""Workloads that no small product stands for."""
PACKED_AHEAD = (
    "conv2d:1,192,28,28,192,3,3,2,1", "conv2d:1,384,28,28,512,1,1,2,0", "conv2d:1,384,7,7,384,3,3",
    "conv2d:1,1024,7,7,384,1,1,1,0", "conv2d:1,448,14,14,384,1,1,1,0", "conv2d:1,96,28,28,96,3,3",
    "conv2d:1,256,14,14,192,3,3", "conv2d:1,160,56,56,48,3,3",
    "conv2d:1,896,7,7,320,1,1,1,0", "conv2d:1,768,7,7,160,1,1,1,0", "conv2d:1,224,7,7,1152,1,1,1,0",
)  # fmt: skip
"""Convolutions drawn from, too, with their filters packed ahead of all calls, as those of a model are."""
_CALLS = 60
_DRAWN_CALLS = 12
_SLOW = 1e9  # operations of a workload whose slow points would take most of the time


class Listed:
    """Proposes the candidates given, in order."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._left = list(reversed(candidates))

    def ask(self, count: int) -> list[Candidate]:
        return [self._left.pop() for _ in range(min(count, len(self._left)))]

    def tell(self, candidate: Candidate, cost: float | None) -> None:
        pass


def record(
    workload: str, target: Target, fleet: LocalFleet, builder: ProcessBuilder, most: int, drawn: bool
) -> RecordedSpace:
    """The workload's space, or at most `most` points of it, measured."""
    weights = (1,) if workload in PACKED_AHEAD else ()
    task = task_of(workload, target, weights)
    full = generate(task.func, task.target)
    share, calls = most // len(full), _DRAWN_CALLS if drawn else _CALLS
    thin = [(sketch, draw_points(sketch, share)) if drawn else thinned(sketch, share) for sketch in full]
    sketches = [sketch for sketch, _ in thin]
    everything = [Candidate(sketch, point) for sketch, points in thin for point in points]
    order = np.random.default_rng(0).permutation(len(everything))
    search = sketch_task(task, Listed([everything[i] for i in order]), sketches)
    options = RunOptions(
        trials=len(everything), samples=calls, max_samples=calls, sample_ms=0, finalists=0, reject=task.flops > _SLOW,
        equal_failures=len(everything), build_timeout_s=30.0, run_timeout_s=60.0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, RecordStore.open(Path(folder, "r.db"), create=True) as store:
        outcome = tune([search], fleet=fleet, builder=builder, options=options, store=store)
        trials = list(store.trials.all(outcome.snapshot.run_id))
    searched = [t for t in trials if t.purpose is TrialPurpose.SEARCH]
    by_digest = {t.digest: min(t.samples) if t.samples else None for t in searched}
    if sum(cost is not None for cost in by_digest.values()) < len(everything) // 2:
        failure = next((t.failure_text for t in trials if t.failure), "the run ended early")
        raise SystemExit(f"{workload}: most points failed, first: {failure}")
    costs = {c.key: by_digest[c.digest] for c in everything if c.digest in by_digest}
    about = {
        "recorded": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": processor(),
        "how": f"benchmarks/record_spaces.py, least of {calls} calls, one thread",
    }
    return RecordedSpace(workload, str(target), about, tuple(sketches), costs, weights)


def processor() -> str:
    """Return the processor's own name."""
    about = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="this workload; may be given often")
    parser.add_argument("--points", type=int, default=160, help="most points of a space")
    parser.add_argument("--drawn-points", type=int, default=160, help="most points of a space too large to be whole")
    parser.add_argument("--data", type=Path, default=DATA, help="where each family has its folder")
    parser.add_argument("--again", action="store_true", help="also what is recorded already")
    args = parser.parse_args()
    target = Target(f"{Target.host()} -num-cores=1")
    large = (*DRAWN, *PACKED_AHEAD)
    paths = {w: path_of(w, target, args.data, drawn=w in large) for w in args.only or (*WORKLOADS, *large)}
    missing = [workload for workload, path in paths.items() if args.again or not path.exists()]
    print(f"{target_family(target)}: {len(missing)} of {len(paths)} workloads to record", file=sys.stderr)
    if not missing:
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})  # inherited by the server: one thread
    fleet = LocalFleet()
    os.sched_setaffinity(0, cores)
    builder = ProcessBuilder(1, import_main=False)
    try:
        for number, workload in enumerate(missing, start=1):
            began = time.monotonic()
            drawn = workload in large
            space = record(workload, target, fleet, builder, args.drawn_points if drawn else args.points, drawn)
            write(space, paths[workload])
            failed = sum(cost is None for cost in space.costs.values())
            line = f"{number:3} {workload:32}{len(space.costs):5} points, {failed} failed, {1e6 * space.best:.1f} µs"
            size, took = paths[workload].stat().st_size / 1024, time.monotonic() - began
            print(f"{line}, {size:.1f} KiB, {took:.0f} s", file=sys.stderr)
    finally:
        builder.close()
        fleet.close()


if __name__ == "__main__":
    main()
