"""Recorded traces as points of a search space."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tuner.search.base import Candidate
from tuner.space.sketch import Sketch
from tuner.space.traced import TracedSketch


def recogniser(sketches: Sequence[Sketch]) -> Callable[[str, str], Candidate | None]:
    """Recreate the candidate of `sketches` whose trace was recorded.
    A trace differs from its sketch's only in the decisions, so they are read off it directly. Reading it as a
    schedule would take ten times as long."""
    known = [(sketch, _split(sketch.trace.to_json())[0]) for sketch in sketches]

    def recognise(digest: str, trace: str) -> Candidate | None:
        steps, decisions = _split(trace)
        for sketch, own in known:
            point = _point(sketch, own, steps, decisions)
            if point is not None:
                candidate = Candidate(sketch, point)
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


def _point(sketch: Sketch, own: Any, steps: Any, decisions: Sequence[Any]) -> tuple[int, ...] | None:
    if isinstance(sketch, TracedSketch):
        return _finished_point(sketch, own, steps, decisions)
    return tuple(decisions) if steps == own and _is_point(decisions, sketch) else None


def _is_point(decisions: Sequence[Any], sketch: Sketch) -> bool:
    return len(decisions) == len(sketch.decisions) and all(
        isinstance(index, int) and 0 <= index < len(open_.values) for index, open_ in zip(decisions, sketch.decisions)
    )


def _finished_point(sketch: TracedSketch, own: Any, record: Any, decisions: Sequence[Any]) -> tuple[int, ...] | None:
    """The recorded point.
    The sketch's steps come first, its decisions are values of their domains, and the rest follows from them."""
    if not isinstance(record, dict) or not isinstance(record.get("steps"), list):
        return None
    begun = {**record, "steps": record["steps"][: len(own["steps"])]}
    if begun != own or len(decisions) < len(sketch.domains):
        return None
    taken = [_frozen(decision) for decision in decisions]
    if any(value not in domain for value, domain in zip(taken, sketch.domains)):
        return None
    return tuple(domain.index(value) for value, domain in zip(taken, sketch.domains))


def _frozen(decision: Any) -> Any:
    """JSON's lists as the tuples they were."""
    return tuple(map(_frozen, decision)) if isinstance(decision, list) else decision
