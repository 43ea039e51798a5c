"""Initial candidates of a new task.

The fastest traces of the nearest workloads in the store, adapted to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import TunefarmError
from compiler.schedule.core.trace import Trace
from compiler.tir import nodes as n
from tuner.model.dataset import function_of
from tuner.records.lookup.keys import candidate_digest, workload_family
from tuner.records.store import RecordStore
from tuner.search.base import Candidate, Proposal, Recorded, Strategy
from tuner.search.recognise import recogniser
from tuner.space.sketch import Sketch
from tuner.task import TuningTask
from tuner.transfer.adapt import Adapter
from tuner.transfer.distance import between, describe

_NEIGHBOURS = 3
_TRACES = 4  # of each
_MOST = 8


@dataclass(frozen=True)
class Neighbour:
    """A workload near the one to tune, and its fastest traces, fastest first.
    It is `away` by `tuner.transfer.distance`."""

    name: str
    away: float
    func: n.PrimFunc
    traces: tuple[Trace, ...]


@dataclass(frozen=True)
class WarmStart:
    """Candidates to begin with, most promising first, and the names of the workloads that they come from."""

    candidates: tuple[Proposal, ...] = ()
    sources: tuple[str, ...] = ()


def neighbours(store: RecordStore, task: TuningTask) -> list[Neighbour]:
    """The nearest workloads that were tuned for the task's target, nearest first."""
    here = describe(task.func)
    if here is None:
        return []
    found = []
    for workload, _ in store.best.near(workload_family(task.func.script()), str(task.target)):
        func = function_of(workload.spec, workload.function)
        there = None if func is None else describe(func)
        away = None if there is None else between(here, there)
        if func is not None and away is not None:
            found.append((away, workload.key, workload.name, func))
    nearest = {key: (away, name, func) for away, key, name, func in sorted(found, key=lambda f: f[:2], reverse=True)}
    chosen = sorted(nearest.items(), key=lambda item: item[1][0])[:_NEIGHBOURS]
    return [Neighbour(name, away, func, _fastest(store, key, str(task.target))) for key, (away, name, func) in chosen]


def _fastest(store: RecordStore, workload: str, target: str) -> tuple[Trace, ...]:
    traces = []
    for trial in store.trials.fastest(workload, _TRACES, target):
        try:
            traces.append(Trace.from_json(trial.trace or ""))
        except TunefarmError:  # another tuner's record
            continue
    return tuple(traces)


def warm_start(task: TuningTask, sketches: Sequence[Sketch], near: Sequence[Neighbour], most: int = _MOST) -> WarmStart:
    """Return adapted traces of the neighbours: the fastest of each, then the second, and so on.
    No trace comes twice."""
    recognise = recogniser(sketches)
    found: dict[str, tuple[Proposal, str]] = {}
    for name, trace in _in_turns(task, sketches, near):
        if len(found) == most:
            break
        text = trace.to_json()
        digest = candidate_digest(text)
        found.setdefault(digest, (recognise(digest, text) or Recorded(digest, text), name))
    return WarmStart(tuple(p for p, _ in found.values()), tuple(dict.fromkeys(name for _, name in found.values())))


def _in_turns(task: TuningTask, sketches: Sequence[Sketch], near: Sequence[Neighbour]) -> Iterator[tuple[str, Trace]]:
    adapters = [Adapter(other.func, task.func, task.target, sketches) for other in near if other.traces]
    others = [other for other in near if other.traces]
    for rank in range(max((len(other.traces) for other in others), default=0)):
        for other, adapter in zip(others, adapters):
            made = adapter.adapt(other.traces[rank]) if rank < len(other.traces) else None
            if made is not None:
                yield other.name, made


class WarmStarted:
    """The strategy `inner`, in turns with the candidates to begin with until those are used up.
    If they are no good here, only half of the trials were theirs. `inner` has the first turn. On most of the spaces
    of benchmarks/strategies.py a model's first choice is better than a neighbour's best."""

    def __init__(self, inner: Strategy, first: Sequence[Proposal]) -> None:
        self._inner = inner
        self._first = list(reversed(first))
        self._offered = {candidate.digest for candidate in first}
        self._adapted_turn = True

    def ask(self, count: int) -> Sequence[Proposal]:
        chosen: list[Proposal] = []
        while len(chosen) < count:
            self._adapted_turn = not self._adapted_turn
            more = [self._first.pop()] if self._first and self._adapted_turn else self._asked(count - len(chosen))
            if not more:
                if not self._first:
                    break
                more = [self._first.pop()]
            chosen += more
        return chosen

    def _asked(self, count: int) -> list[Proposal]:
        """New candidates of `inner`; one at a time while it is not alone."""
        while more := self._inner.ask(1 if self._first else count):
            if new := [candidate for candidate in more if candidate.digest not in self._offered]:
                return new
        return []

    def tell(self, candidate: Any, cost: float | None) -> None:
        self._first = [first for first in self._first if first.digest != candidate.digest]
        if isinstance(candidate, Candidate):  # a trace of no space of ours teaches nothing about one
            self._inner.tell(candidate, cost)
