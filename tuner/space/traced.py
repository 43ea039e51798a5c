"""Any schedule trace as a sketch.

The domain of each of its sampling steps is worked out from the function.

A point is finished before it is built. `finish` continues the replayed schedule (it may parallelise, vectorise,
decompose reductions by the decisions) and says whether the point is worth building.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from compiler.errors import ScheduleError, TunefarmError
from compiler.schedule.core.moves import Move
from compiler.schedule.core.rv import RV, BlockRV, LoopRV
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.step import Decision as Drawn
from compiler.schedule.core.step import Step
from compiler.schedule.core.trace import Trace
from compiler.schedule.primitives.sampling import compute_locations, divisors
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from tuner.errors import TuningError
from tuner.space.sketch import Decision, Sketch, anything, level

Finish = Callable[[Schedule], bool]
_MOST_KEPT = 4096  # finished points remembered
_LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True)
class TracedSketch(Sketch):
    """A sketch given by a trace.
    `domains[i]` are the decisions that the i-th sampling step may take, in an order where neighbours are alike."""

    func: n.PrimFunc
    domains: tuple[tuple[Drawn, ...], ...]
    finish: Finish
    _points: dict[tuple[int, ...], str | None] = field(default_factory=dict, repr=False, compare=False)

    def is_allowed(self, indices: Sequence[int]) -> bool:
        """Whether the trace applies with these decisions and its result is worth building."""
        return self._finished(tuple(indices)) is not None

    def trace_json(self, indices: Sequence[int]) -> str:
        """The finished trace as text. Raises TuningError for a point that is not allowed."""
        text = self._finished(tuple(indices))
        if text is None:
            raise TuningError(f"{self.name}: the point {tuple(indices)} is not in the space")
        return text

    def _finished(self, point: tuple[int, ...]) -> str | None:
        if point not in self._points:
            if len(self._points) >= _MOST_KEPT:
                self._points.clear()
            self._points[point] = self._finish(point)
        return self._points[point]

    def _finish(self, point: tuple[int, ...]) -> str | None:
        decisions = [domain[at] for domain, at in zip(self.domains, point, strict=True)]
        try:
            schedule = Schedule.replay(self.func, self.trace.with_decisions(decisions))
            return schedule.trace.to_json() if self.finish(schedule) else None
        except TunefarmError:  # decisions that don't go together: a loop is shorter than it was when they were listed
            return None


def traced(name: str, func: n.PrimFunc, trace: Trace, finish: Finish = lambda schedule: True) -> TracedSketch:
    """The sketch of `trace` on `func`. Raises ScheduleError when the trace does not apply at all."""
    domains = _domains(func, trace)
    decisions = tuple(
        Decision(f"{step.prim.removeprefix('sample_')}{at}", tuple(range(len(domain))))
        for at, (step, domain) in enumerate(zip(trace.sampling_steps, domains))
    )
    return TracedSketch(name, trace, decisions, anything, level, func, domains, finish)


# ------------------------------------------------------------------------------------ domains


def _domains(func: n.PrimFunc, trace: Trace) -> tuple[tuple[Drawn, ...], ...]:
    """The domain of each sampling step, at the function as the steps before it leave it."""
    schedule = Schedule(func, seed=0)
    found: list[tuple[Drawn, ...]] = []

    def take(move: Move) -> Sequence[RV]:
        if move.is_drawn:
            domain = domain_of(schedule, move.here)
            found.append(domain)
            if move.decision not in domain:
                move = move._replace(decision=domain[len(domain) // 2])
        return move.take_on(schedule)

    trace.play(take)
    return tuple(found)


def domain_of(schedule: Schedule, step: Step) -> tuple[Drawn, ...]:
    """The decisions that a sampling step may take on the function as `schedule` has it."""
    attrs = dict(step.attrs)
    match step.prim:
        case "sample_categorical":
            return tuple(range(len(attrs["candidates"])))
        case "sample_perfect_tile":
            return tuple(_tilings(_extent(schedule, step), attrs["n"], attrs["max_innermost_factor"]))
        case "sample_tile":
            return tuple(_covers(_extent(schedule, step), attrs["n"], attrs["max_innermost_factor"]))
        case "sample_compute_location":
            block = step.inputs[0]
            assert isinstance(block, BlockRV)
            return tuple(range(-1, len(compute_locations(schedule.func, schedule.get(block).name_hint))))
        case other:
            raise TuningError(f"no domain is known for {other}")


def _extent(schedule: Schedule, step: Step) -> int:
    given = step.inputs[0]
    assert isinstance(given, LoopRV)
    loop = schedule.get(given)
    extent = as_int(loop.extent)
    if extent is None:
        raise ScheduleError(f"{step.prim}: loop {loop.loop_var.name!r} has no constant extent to tile")
    return extent


def _tilings(extent: int, parts: int, innermost: int) -> Iterator[tuple[int, ...]]:
    """All `parts` factors of `extent`, the last at most `innermost`, by rising inner factors."""
    if parts == 1:
        yield (extent,)
        return
    for last in divisors(extent):
        if last <= innermost:
            for outer in _tilings(extent // last, parts - 1, extent):
                yield (*outer, last)


def _covers(extent: int, parts: int, innermost: int) -> Iterator[tuple[int, ...]]:
    """The inner factors of `sample_tile`: divisors and handy sizes, no larger than needed together."""
    sizes = sorted({size for size in (*divisors(extent), *_LADDER) if size <= extent})
    for chosen in itertools.product(sizes, repeat=parts - 1):
        if (not chosen or chosen[-1] <= innermost) and math.prod(chosen) <= 2 * extent:
            yield chosen
