"""The cost of the search itself: asking, telling, scoring candidates without building them, and the engine's own work.

    python benchmarks/search.py

`ask` and `tell` are of the strategy alone, for each candidate of a run of `--trials`. `score` is of features and the
model in use over 4,096 points of the space. `engine` plays a run with recorded results on one device that takes no
time, so what is left is the engine, the store and the search, in wall time and in time on the processor for each trial.
The share is of the latter beside a trial that takes `--trial-ms`: with a core to itself the engine works while devices
measure, so what a run is longer by is less.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from compiler.target.target import Target
from rpc_server.wire.trial_messages import MeasureResult
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_search
from tuner.engine.replay import ReplayBuilder, ReplayFleet
from tuner.model.guide import Guide
from tuner.model.library import newest
from tuner.model.machine import target_family
from tuner.search.population import sample
from tuner.search.registry import STRATEGIES
from tuner.space.generate import generate
from tuner.task import TuningTask

_POINTS = 4096


def made_up(name: str) -> float:
    """A cost for each candidate, the same every time."""
    return 1e-3 if name == "untuned" else 1e-4 * (1 + int(name[:6], 16) / (1 << 24))


def strategy_costs(task: TuningTask, name: str, trials: int) -> tuple[float, float]:
    """Seconds a candidate for `ask` and for `tell`."""
    strategy = sketch_search(task, name).strategy
    asking = telling = 0.0
    for _ in range(trials):
        began = time.perf_counter()
        [candidate] = strategy.ask(1)
        asked = time.perf_counter()
        digest = candidate.digest
        named = time.perf_counter()
        strategy.tell(candidate, made_up(digest))
        asking += asked - began
        telling += time.perf_counter() - named
    return asking / trials, telling / trials


def score(task: TuningTask) -> float:
    """Seconds on the processor to compute the features of 4,096 points and score them by the model in use."""
    sketches = generate(task.func, task.target)
    sketch = max(sketches, key=lambda s: s.size)
    points = np.resize(np.array(sample(sketch, _POINTS, np.random.default_rng(0))), (_POINTS, len(sketch.decisions)))
    guide = Guide.of(sketches, task.func, task.target, lambda: newest(None, target_family(task.target)))
    began = time.process_time()
    guide.describe(sketch, points)
    return time.process_time() - began


def engine(task: TuningTask, name: str, trials: int) -> tuple[float, float]:
    """Seconds of the whole run for each trial, of wall and processor time, where devices and builders take none."""
    fleet = ReplayFleet(lambda candidate: MeasureResult(costs=(made_up(candidate),) * 3))
    options = RunOptions(trials=trials, finalists=0)
    search = sketch_search(task, name)
    before = time.process_time()
    outcome = tune([search], fleet=fleet, builder=ReplayBuilder(), options=options)
    return outcome.snapshot.elapsed_s / trials, (time.process_time() - before) / trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="matmul:512,512,512")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--trial-ms", type=float, default=100.0)
    args = parser.parse_args()
    task = TuningTask.from_spec(args.workload, str(Target.host()))
    print(f"{_POINTS} points scored in {1e3 * score(task):.0f} ms")
    print(f"{'strategy':16}{'ask, ms':>10}{'tell, ms':>10}{'engine, ms':>12}{'of CPU, ms':>12}{'share':>8}")
    for name in STRATEGIES:
        asking, telling = strategy_costs(task, name, args.trials)
        wall, cpu = engine(task, name, args.trials)
        share = cpu / (cpu + args.trial_ms * 1e-3)
        print(f"{name:16}{1e3 * asking:10.2f}{1e3 * telling:10.2f}{1e3 * wall:12.2f}{1e3 * cpu:12.2f}{share:8.1%}")


if __name__ == "__main__":
    main()
