"""Recorded traces as points of a search space."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tuner.search.base import Candidate
from tuner.space.sketch import Sketch


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
