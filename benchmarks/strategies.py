"""Search strategies compared on recorded spaces: no device, no compiler, the engine as it is.

    python benchmarks/strategies.py
    python benchmarks/strategies.py --family llvm-x86_64-512 --only evolutionary --only random
    python benchmarks/strategies.py --seeds 3 --trials 64 --write benchmarks/results/strategies.md

Each strategy tunes every workload of benchmarks/data/FAMILY/ with every seed, the engine playing recorded results back;
by default, those of every family that was recorded, each by itself.
Printed is the best so far, as the share of the space's best speed, after so many trials (the geometric mean over
workloads of the median over seeds), then the trials it took to come within 5 % of the space's best. Beside the
strategies of `tunefarm tune --strategy` stand two of the evolutionary one with a store that knows the other workloads:

    model   a model trained on the others' spaces scores candidates
    warm    and the search begins with the others' fastest traces, adapted

Cold, it has the analytic draft alone. How the spaces were recorded is in benchmarks/record_spaces.py.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recorded_spaces import DATA, RecordedSpace, families, put, spaces

from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_task
from tuner.engine.progress import NoWatcher, TrialDone
from tuner.engine.replay import ReplayBuilder, ReplayFleet, answers
from tuner.model.dataset import group_of
from tuner.model.guide import Guide
from tuner.model.library import Found
from tuner.model.training import Group, TrainingOptions, fit
from tuner.records.model import TrialPurpose
from tuner.search.base import Candidate, Strategy
from tuner.search.evolutionary import EvolutionaryStrategy
from tuner.search.registry import STRATEGIES, make_strategy
from tuner.space.repair import nearest_point
from tuner.transfer.distance import between, describe
from tuner.transfer.warm import WarmStarted

STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_NEAR = 0.95  # of the best speed
_NEIGHBOURS, _TRACES = 3, 4
_CALLED = {
    "evolutionary": "`evolutionary`, analytic draft only",
    "model": "`evolutionary`, a model that has not seen the workload",
    "warm": "the same, and traces of the nearest other workloads",
}


@dataclass
class Curve(NoWatcher):
    """The best cost so far after each trial."""

    space: RecordedSpace

    def __post_init__(self) -> None:
        self.shares: list[float] = []

    def trial(self, done: TrialDone) -> None:
        if done.purpose is TrialPurpose.SEARCH:
            here = 0.0 if done.cost is None else self.space.best / done.cost
            self.shares.append(max(here, self.shares[-1] if self.shares else 0.0))

    def at(self, trials: int) -> float:
        return self.shares[min(trials, len(self.shares)) - 1]

    def trials_to(self, share: float) -> float:
        """The number of the first trial that reached it; infinite when none did."""
        return next((number + 1.0 for number, s in enumerate(self.shares) if s >= share), float("inf"))


@dataclass(frozen=True)
class Outcome:
    """Results of a strategy: the trials that each space took to within 5 % of its best, and the best by trials."""

    needed: tuple[float, ...]
    shares: Mapping[int, float]


class Comparison:
    """The recorded spaces, and what each of them may know of the others."""

    def __init__(self, recorded: Sequence[RecordedSpace]) -> None:
        self.spaces = tuple(recorded)
        self._groups = {space.workload: _group(space) for space in self.spaces}
        self._models: dict[str, Found] = {}

    def strategy(self, name: str, space: RecordedSpace, seed: int) -> Strategy:
        if name not in ("model", "warm"):
            guide = Guide.of(space.sketches, space.task.func, space.task.target) if name == "evolutionary" else None
            return make_strategy(name, space.sketches, seed, (), guide)
        guide = Guide.of(space.sketches, space.task.func, space.task.target, lambda: self._model(space))
        search = EvolutionaryStrategy(space.sketches, seed, guide=guide)
        return WarmStarted(search, self._traces(space)) if name == "warm" else search

    def _model(self, space: RecordedSpace) -> Found:
        """A model that has not seen the workload."""
        if space.workload not in self._models:
            others = [group for workload, group in self._groups.items() if workload != space.workload]
            self._models[space.workload] = Found(fit(others, TrainingOptions()), "a model of the others")
        return self._models[space.workload]

    def _traces(self, space: RecordedSpace) -> list[Candidate]:
        """The fastest traces of the nearest other spaces, moved to the nearest recorded points of this one."""
        found: dict[str, Candidate] = {}
        for rank in range(_TRACES):
            for other in self._nearest(space):
                fastest = sorted((cost, at) for at, (_, cost) in enumerate(other.candidates) if cost is not None)
                candidate = other.candidates[fastest[rank][1]][0]
                sketch = next((s for s in space.sketches if s.name == candidate.sketch.name), space.sketches[-1])
                point = nearest_point(sketch, candidate.sketch.values(candidate.decisions))
                if point is not None:
                    made = Candidate(sketch, point)
                    found.setdefault(made.digest, made)
        return list(found.values())

    def _nearest(self, space: RecordedSpace) -> list[RecordedSpace]:
        here = describe(space.task.func)
        others = [(describe(other.task.func), at) for at, other in enumerate(self.spaces) if other is not space]
        away = [(between(here, there), at) for there, at in others if here is not None and there is not None]
        near = sorted((distance, at) for distance, at in away if distance is not None)
        return [self.spaces[at] for _, at in near[:_NEIGHBOURS]]


def _group(space: RecordedSpace) -> Group:
    costs = {candidate.trace_json: cost for candidate, cost in space.candidates if cost is not None}
    group = group_of(space.workload, space.task.func, space.task.target, costs)
    assert group is not None
    return group


def play(search: Strategy, space: RecordedSpace, trials: int) -> Curve:
    """One run of the engine on recorded results."""
    curve = Curve(space)
    options = RunOptions(trials=min(trials, len(space.costs)), finalists=0, equal_failures=10**6)
    task = sketch_task(space.task, search, space.sketches)
    tune([task], fleet=ReplayFleet(answers(space.results())), builder=ReplayBuilder(2), options=options, watcher=curve)
    return curve


def mean_share(curves: Sequence[Sequence[Curve]], step: int) -> float:
    """The geometric mean over workloads of the median over seeds."""
    return statistics.geometric_mean(statistics.median(c.at(step) for c in of) for of in curves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*STRATEGIES, "model", "warm"]
    parser.add_argument("--only", action="append", choices=known, help="this strategy; may be given often")
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--family", action="append", help="of targets; may be given often (default: all recorded)")
    parser.add_argument("--data", type=Path, default=DATA, help="where each family has its folder")
    parser.add_argument("--by-workload", action="store_true", help="also the trials to 5 %% of each workload")
    parser.add_argument("--write", type=Path, help="put tables of trials to 5 %% into this page, between its marks")
    args = parser.parse_args()
    tables = []
    for family in args.family or families(args.data):
        recorded = list(spaces(family, args.data))
        if not recorded:
            parser.error(f"no space of {family} was recorded")
        found = compare(family, recorded, args.only or known, args.seeds, args.trials)
        if args.by_workload:
            print(f"\n{'workload':34}" + "".join(f"{name:>14}" for name in found))
            for at, space in enumerate(recorded):
                print(f"{space.workload:34}" + "".join(f"{of.needed[at]:14.0f}" for of in found.values()))
        print(flush=True)
        points = sum(len(space.costs) for space in recorded)
        title = f"`{family}` ({recorded[0].made}), {len(recorded)} spaces of {points} points in all:"
        tables.append(table(title, found))
    if args.write is not None:
        put(args.write, "strategies", f"Of {args.seeds} seeds, {args.trials} trials at most.\n\n" + "\n\n".join(tables))


def compare(
    family: str, recorded: Sequence[RecordedSpace], names: Sequence[str], seeds: int, trials: int
) -> dict[str, Outcome]:
    """Print a row for each strategy."""
    comparison = Comparison(recorded)
    steps = [step for step in STEPS if step <= trials]
    points = sum(len(space.costs) for space in comparison.spaces)
    print(f"{family}: {len(comparison.spaces)} workloads, {points} recorded points, {seeds} seeds, {trials} trials")
    print("share of the best speed after so many trials; trials to within 5 %: median, mean, worst; CPU a trial")
    columns = "".join(f"{step:>7}" for step in steps)
    print(f"{'strategy':14}{columns}{'median':>9}{'mean':>7}{'worst':>7}{'ms':>7}")
    found: dict[str, Outcome] = {}
    for name in names:
        began = time.process_time()
        curves = [
            [play(comparison.strategy(name, space, seed), space, trials) for seed in range(seeds)]
            for space in comparison.spaces
        ]
        spent = time.process_time() - began
        needed = tuple(statistics.median(min(c.trials_to(_NEAR), trials) for c in of) for of in curves)
        shares = {step: mean_share(curves, step) for step in steps}
        found[name] = Outcome(needed, shares)
        row = "".join(f"{share:7.3f}" for share in shares.values())
        row += f"{statistics.median(needed):9.1f}{statistics.mean(needed):7.1f}{max(needed):7.0f}"
        print(f"{name:14}{row}{1e3 * spent / sum(len(c.shares) for of in curves for c in of):7.1f}", flush=True)
    return found


def table(title: str, found: Mapping[str, Outcome]) -> str:
    """Best so far, and trials to within 5 % of the best, as a page shows them."""
    steps = list(next(iter(found.values())).shares)
    head = ["search", *(f"after {step}" for step in steps), "median", "mean", "worst"]
    rows = [title, "", f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for name, of in found.items():
        trials = (statistics.median(of.needed), statistics.mean(of.needed), max(of.needed))
        shares = (f"{share:.2f}" for share in of.shares.values())
        called = _CALLED.get(name, f"`{name}`")
        rows.append(f"| {' | '.join([called, *shares, *(f'{count:.0f}' for count in trials)])} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
