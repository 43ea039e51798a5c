"""A task and how it is searched: what a run is given, one for each of its tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.build_worker import Source, TraceSource, pack_func
from tuner.search.base import Candidate, Proposal, SearchStrategy
from tuner.search.registry import make_strategy
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.task import TuningTask


@dataclass(frozen=True)
class TaskSearch:
    """`recognise` makes the candidate of a recorded trial again, from its digest and text, to tell a resumed search
    of; None where today's space has no such candidate. `source` says what to build for a candidate, and for None:
    the untuned function, whose output is the reference; it may raise a TunefarmError, which fails that trial.
    `weight` is the task's share in what the run makes small.
    """

    task: TuningTask
    strategy: SearchStrategy
    recognise: Callable[[str, str], Proposal | None]
    source: Callable[[Proposal | None], Source]
    weight: float = 1.0

    @property
    def group(self) -> str:
        """Tasks of one group are expected to reach similar speeds."""
        return self.task.spec.op if self.task.spec is not None else ""


def sketch_search(
    task: TuningTask, strategy: str = "evolutionary", seed: int = 0, seen: Iterable[str] = (), weight: float = 1.0
) -> TaskSearch:
    """A search of the space that is derived from the task's function. Raises TuningError for an unknown strategy."""
    sketches = generate(task.func, task.target)
    return sketch_task(task, make_strategy(strategy, sketches, seed, seen), sketches, weight)


def sketch_task(
    task: TuningTask, strategy: SearchStrategy, sketches: Sequence[Sketch] | None = None, weight: float = 1.0
) -> TaskSearch:
    """A search by a strategy of one's own whose candidates are points of `sketches` (default: the derived space)."""
    known = generate(task.func, task.target) if sketches is None else tuple(sketches)
    return TaskSearch(
        task=task,
        strategy=strategy,
        recognise=recogniser(known),
        source=trace_source(task),
        weight=weight,
    )


def trace_source(task: TuningTask) -> Callable[[Proposal | None], Source]:
    """For candidates that are schedule traces: the task's function with the trace applied."""
    func = pack_func(task.func)
    return lambda candidate: TraceSource(func, None if candidate is None else candidate.trace_json)


def recogniser(sketches: Sequence[Sketch]) -> Callable[[str, str], Candidate | None]:
    """Makes the candidate of `sketches` again whose trace was recorded. A trace is its sketch's in all but the
    decisions, so they are read off it without reading it as a schedule, which takes ten times as long."""
    known = [(sketch, _split(sketch.trace.to_json())) for sketch in sketches]

    def recognise(digest: str, trace: str) -> Candidate | None:
        steps, decisions = _split(trace)
        for sketch, (own, _) in known:
            if steps == own and _is_point(decisions, sketch):
                candidate = Candidate(sketch, tuple(decisions))
                vars(candidate).update(digest=digest, trace_json=trace)  # what the properties would work out
                return candidate
        return None

    return recognise


def _split(trace: str) -> tuple[Any, list[Any]]:
    """A trace's text without its decisions, and those."""
    try:
        record = json.loads(trace)
    except ValueError:
        return None, []
    decisions = record.pop("decisions", None) if isinstance(record, dict) else None
    return record, [d for d in decisions if d is not None] if isinstance(decisions, list) else []


def _is_point(decisions: Sequence[Any], sketch: Sketch) -> bool:
    return len(decisions) == len(sketch.decisions) and all(
        isinstance(index, int) and 0 <= index < len(open_.values)
        for index, open_ in zip(decisions, sketch.decisions)
    )


@dataclass(frozen=True)
class Recorded:
    """A candidate known only from the store: it can be built and measured, not searched from."""

    digest: str
    trace_json: str
