"""Adapt a schedule trace made for one shape to another shape of the same family.

A trace that is a point of its function's derived space becomes the point of the other function's space with the
nearest values. Tile sizes suit the machine more than the shape, so they are kept if possible, else moved to the
nearest legal ones. Any other trace keeps its steps, and each of its sampling steps takes the legal decision nearest
to the old one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from compiler.errors import TunefarmError
from compiler.ir.visit import walk
from compiler.schedule.core.moves import Move
from compiler.schedule.core.rv import RV
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.step import Decision as Drawn
from compiler.schedule.core.step import Step
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.search.base import Candidate
from tuner.search.recognise import recogniser
from tuner.space.generate import generate, generate_one
from tuner.space.repair import nearest_point
from tuner.space.sketch import Sketch, Values
from tuner.space.traced import domain_of
from tuner.transfer.distance import describe


def adapt(trace: Trace, source: n.PrimFunc, func: n.PrimFunc, target: Target) -> Trace | None:
    """`trace`, which schedules `source`, adapted to `func` on `target`; None without a legal one.
    The result was applied to `func`, so it is a legal schedule of it."""
    return Adapter(source, func, target).adapt(trace)


class Adapter:
    """Adapts traces of `source` to `func`.
    Give its `sketches` (the derived space) if many traces are to come. Without them only the needed sketch is made,
    which takes a fraction of the time."""

    def __init__(
        self, source: n.PrimFunc, func: n.PrimFunc, target: Target, sketches: Sequence[Sketch] | None = None
    ) -> None:
        self._source, self._func, self._target, self._sketches = source, func, target, sketches
        here, there = describe(source), describe(func)
        self._related = here is not None and there is not None and here.family == there.family
        if self._related:
            self._recognise = _recogniser(source, target)
            self._names = dict(zip(_block_names(source), _block_names(func), strict=True))

    def adapt(self, trace: Trace) -> Trace | None:
        """See `adapt`, the function."""
        if not self._related:
            return None
        point = self._as_point(trace)
        if point is not None and point.carried_out:
            return point.trace
        made = _step_by_step(self._func, trace, self._names) if point is None else point.trace
        if made is None:
            return None
        try:
            apply_trace(self._func, made)
        except TunefarmError:
            return None
        return made

    def _as_point(self, trace: Trace) -> _Point | None:
        """Adapt by the values of the decisions, in the sketch that is most like the trace's."""
        known = self._recognise("", trace.to_json())
        if known is None:
            return None
        values = known.sketch.values(known.decisions)
        sketch = self._most_like(known.sketch, values)
        point = nearest_point(sketch, values)
        if point is None:
            return None
        return _Point(Trace.from_json(sketch.trace_json(point)), point == sketch.trace.decisions)

    def _most_like(self, known: Sketch, values: Values) -> Sketch:
        """The sketch that is most like `known`.
        It is carried out with decisions near `values` if it is made for that."""
        if self._sketches is None:
            alone = generate_one(self._func, self._target, known.name, values)
            if alone is not None:
                return alone
            self._sketches = generate(self._func, self._target)
        return max(self._sketches, key=lambda other: _likeness(other, known))


@dataclass(frozen=True)
class _Point:
    """A point of a sketch as a trace.
    `carried_out`: the sketch was made with these decisions, so they are legal."""

    trace: Trace
    carried_out: bool


@lru_cache(maxsize=64)
def _recogniser(source: n.PrimFunc, target: Target) -> Callable[[str, str], Candidate | None]:
    """Return what recognises traces of the source's own space.

    One source serves many functions, each of which asks for it.
    """
    return recogniser(generate(source, target))


def _likeness(a: Sketch, b: Sketch) -> tuple[bool, int, int]:
    """Compare sketches by their names, which say what they do ("panels+pack").
    Words in common mean similar schedules."""
    decisions = {d.name for d in a.decisions} & {d.name for d in b.decisions}
    words = set(a.name.split("+")) & set(b.name.split("+"))
    return a.name == b.name, len(words), len(decisions)


def _block_names(func: n.PrimFunc) -> list[str]:
    return [b.name_hint for b in walk(func.body) if isinstance(b, n.Block) and b.iter_vars]


# --------------------------------------------------------------------------- any other trace


def _step_by_step(func: n.PrimFunc, trace: Trace, names: dict[str, str]) -> Trace | None:
    """Replay the trace on `func`, each decision the legal one nearest to the old.
    None when a step is illegal."""
    schedule = Schedule(func, seed=0)

    def take(move: Move) -> Sequence[RV]:
        here = _renamed(move.here, names)
        decision = _nearest(schedule, here, move.decision) if move.is_drawn else None
        return move._replace(here=here, decision=decision).take_on(schedule)

    try:
        trace.play(take)
    except TunefarmError:
        return None
    return schedule.trace


def _renamed(step: Step, names: dict[str, str]) -> Step:
    """The step, with the block that it names called as in the other function."""
    if step.prim != "get_block":
        return step
    return replace(step, attrs=tuple((k, names.get(v, v) if k == "name" else v) for k, v in step.attrs))


def _nearest(schedule: Schedule, step: Step, wanted: Drawn | None) -> Drawn | None:
    """The decision in the step's domain that is nearest to `wanted`; None leaves an open one open."""
    if wanted is None:
        return None
    domain = domain_of(schedule, step)
    if wanted in domain:
        return wanted
    if not domain:
        return None
    return min(domain, key=lambda drawn: _apart(step, drawn, wanted))


def _apart(step: Step, a: Any, b: Any) -> float:
    """How different two decisions are. The outermost of perfect factors follows from the others."""
    if isinstance(a, int) or isinstance(b, int):
        return abs(a - b) if isinstance(a, int) and isinstance(b, int) else math.inf
    inner = slice(1, None) if step.prim == "sample_perfect_tile" else slice(None)
    if len(a) != len(b) or min((*a, *b), default=1) < 1:
        return math.inf
    return math.dist([math.log2(x) for x in a[inner]], [math.log2(x) for x in b[inner]])
