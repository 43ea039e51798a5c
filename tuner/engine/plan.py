"""A task and how it is searched: what a run is given, one for each of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.schedule.core.effects import remembered
from tuner.build.worker import Source, TraceSource, pack_func
from tuner.model.guide import Guide
from tuner.model.library import newest
from tuner.model.machine import target_family
from tuner.records.store import RecordStore
from tuner.search.base import Proposal, Strategy
from tuner.search.drafted import drafted_candidate
from tuner.search.recognise import recogniser
from tuner.search.registry import is_guided, make_strategy
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.task import TuningTask
from tuner.transfer.warm import WarmStart, WarmStarted, neighbours, warm_start


@dataclass(frozen=True)
class Knowledge:
    """A search's knowledge before its first trial: the records of `store`, used with `warm`.
    Models come from the store, or with tunefarm, unless `models` is off."""

    store: RecordStore | None = None
    warm: bool = True
    models: bool = True


@dataclass(frozen=True)
class TaskSearch:
    """A task and its search, as the engine takes it.
    `recognise` makes the candidate of a recorded trial again, from its digest and text, to tell a resumed search of;
    None where today's space has no such candidate. `source` says what to build for a candidate, and for None: the
    untuned function, whose output is the reference; it may raise a TunefarmError, which fails that trial. `weight`
    is the task's share in what the run makes small. `warm` is what the strategy begins with, `guide` says what it
    goes by before it has learnt anything, "" for one that goes by nothing. `model` is the model that the task is a
    kernel of, which then calls it `weight` times. `draft` is what a build that finds no record uses: the finals
    compare with it where the store serves nothing, and it stays unless another candidate is clearly faster."""

    task: TuningTask
    strategy: Strategy
    recognise: Callable[[str, str], Proposal | None]
    source: Callable[[Proposal | None], Source]
    weight: float = 1.0
    warm: WarmStart = field(default=WarmStart())
    guide: str = ""
    model: str = ""
    draft: Proposal | None = None

    @property
    def group(self) -> str:
        """Tasks of one group are expected to reach similar speeds."""
        return self.task.spec.op if self.task.spec is not None else ""


def sketch_search(
    task: TuningTask, strategy: str = "evolutionary", seed: int = 0, seen: Iterable[str] = (), weight: float = 1.0,
    knowledge: Knowledge = Knowledge(), sketches: Sequence[Sketch] | None = None, model: str = "",
) -> TaskSearch:  # fmt: skip
    """A search of `sketches`, by default of the space that is derived from the task's function.
    A kernel of a model, by the model's name, begins with what an untuned build of it uses. Raises TuningError for an
    unknown strategy."""
    with remembered():
        sketches = generate(task.func, task.target) if sketches is None else tuple(sketches)
        guide = guide_for(task, sketches, knowledge) if is_guided(strategy) else None
        made = make_strategy(strategy, sketches, seed, seen, guide)
        warm = WarmStart()
        if knowledge.store is not None and knowledge.warm:
            warm = warm_start(task, sketches, neighbours(knowledge.store, task))
        found = TaskSearch(
            task=task, strategy=WarmStarted(made, warm.candidates) if warm.candidates else made,
            recognise=recogniser(sketches), source=trace_source(task), weight=weight, warm=warm,
            guide="" if guide is None else guide.says, model=model,
        )  # fmt: skip
        return begun_with_draft(found, sketches, guide) if model else found


def begun_with_draft(search: TaskSearch, sketches: Sequence[Sketch], guide: Guide | None = None) -> TaskSearch:
    """Return the search with what an untuned build uses as its first candidate.

    It must be in the space, `sketches`. `guide` is the one to the sketches, if there is one.
    """
    draft = drafted_candidate(search.task.func, search.task.target, sketches, guide=guide)
    if draft is None:
        return search
    return replace(search, strategy=Beginning(search.strategy, draft), draft=draft)


def guide_for(task: TuningTask, sketches: Sequence[Sketch], knowledge: Knowledge = Knowledge()) -> Guide:
    """Return what is known of the sketches before anything is measured."""
    if not knowledge.models:
        return Guide.of(sketches, task.func, task.target)
    family = target_family(task.target)
    return Guide.of(sketches, task.func, task.target, lambda: newest(knowledge.store, family))


def sketch_task(
    task: TuningTask, strategy: Strategy, sketches: Sequence[Sketch] | None = None, weight: float = 1.0
) -> TaskSearch:
    """Make a search by a strategy of one's own over points of `sketches` (default: the derived space)."""
    known = generate(task.func, task.target) if sketches is None else tuple(sketches)
    return TaskSearch(
        task=task, strategy=strategy, recognise=recogniser(known), source=trace_source(task), weight=weight
    )


def trace_source(task: TuningTask) -> Callable[[Proposal | None], Source]:
    """For candidates that are schedule traces: the task's function with the trace applied."""
    func = pack_func(task.func)
    return lambda candidate: TraceSource(func, None if candidate is None else candidate.trace_json)


class Beginning:
    """The strategy `inner`, asked from the second candidate on: the first is `first`."""

    def __init__(self, inner: Strategy, first: Proposal) -> None:
        self._inner = inner
        self._first = first
        self._is_due = True

    def ask(self, count: int) -> Sequence[Proposal]:
        chosen: list[Proposal] = []
        if self._is_due and count > 0:
            self._is_due = False
            chosen.append(self._first)
        while len(chosen) < count:
            more = self._inner.ask(count - len(chosen))
            if not more:
                break
            chosen += [candidate for candidate in more if candidate.digest != self._first.digest]
        return chosen

    def tell(self, candidate: Any, cost: float | None) -> None:
        self._is_due = self._is_due and candidate.digest != self._first.digest
        self._inner.tell(candidate, cost)
