"""A family as tasks that the engine tunes in one run: one a size, whose searches share configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge, TaskSearch, sketch_search
from tuner.families.family import Family
from tuner.families.race import Entrant, Race
from tuner.families.record import FamilyRecord, make_record
from tuner.families.sizes import SizeList
from tuner.records.model import TrialPurpose
from tuner.records.store import RecordStore
from tuner.space.generate import generate
from tuner.space.sketch import Sketch

TRIALS = 21
"""Trials a size unless the run says otherwise: a third of what a workload tuned alone gets."""
PORTFOLIO = 3
"""How many configs a portfolio has unless the user says otherwise."""


@dataclass(frozen=True)
class FamilySearch:
    """`searches` are the engine's tasks, one a size; `record` makes of their times what is kept."""

    name: str
    what: Mapping[str, Any]
    target: str
    sizes: SizeList
    most: int
    searches: tuple[TaskSearch, ...]
    race: Race

    def settle(self, finals: Mapping[str, Mapping[str, float]]) -> None:
        """Replace the search's times by the finals', by workload key and candidates' digests."""
        for at, search in enumerate(self.searches):
            self.race.settle(at, finals.get(search.task.key, {}))

    def record(self, untuned: Sequence[float | None], trials: int = 0) -> FamilyRecord:
        """The portfolio and rule for the times so far. Raises FamilyError when no config works."""
        return make_record(
            self.name, self.what, self.target, self.sizes, self.race.configs, self.race.timings(), self.most,
            self.race.trace, untuned, trials,
        )  # fmt: skip


def finals_of(store: RecordStore, run_id: int) -> dict[str, dict[str, float]]:
    """The median times of a run's finals by workload key and digest, as `FamilySearch.settle` takes them."""
    samples: dict[str, dict[str, list[float]]] = {}
    for trial in store.trials.all(run_id):
        if trial.purpose is TrialPurpose.FINAL and trial.cost is not None and trial.digest is not None:
            samples.setdefault(trial.workload_key, {}).setdefault(trial.digest, []).append(trial.cost)
    return {key: {digest: median(costs) for digest, costs in found.items()} for key, found in samples.items()}


def shared(
    name: str, what: Mapping[str, Any], target: str, sizes: SizeList, most: int, searches: Sequence[TaskSearch],
    spaces: Sequence[Sequence[Sketch]], budget: int, exact: bool = False,
) -> FamilySearch:  # fmt: skip
    """The searches of a family's sizes, joined by a race."""
    entrants = [Entrant(tuple(space), s.strategy, budget, exact) for s, space in zip(searches, spaces, strict=True)]
    race = Race(sizes, entrants, most)
    joined = (
        replace(search, strategy=strategy, weight=weight * len(searches))
        for search, strategy, weight in zip(searches, race.searches(), sizes.weights, strict=True)
    )
    return FamilySearch(name, what, target, sizes, most, tuple(joined), race)


def family_search(
    family: Family, target: str, options: RunOptions, most: int, knowledge: Knowledge | None = None
) -> FamilySearch:
    """The tasks of a family of a named workload or of a graph's function.

    Raises TuningError for an unknown strategy, FamilyError.
    """
    known = knowledge or Knowledge()
    tasks = family.tasks(target)
    spaces = [generate(task.func, task.target) for task in tasks]
    searches = [
        sketch_search(task, options.strategy, options.seed + at, knowledge=known, sketches=space)
        for at, (task, space) in enumerate(zip(tasks, spaces, strict=True))
    ]
    return shared(str(family.spec), family.spec.to_json(), target, family.sizes, most, searches, spaces, options.trials)
