"""Replay of steps on a schedule that has names of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from compiler.schedule.core.rv import RV
from compiler.schedule.core.step import Decision, Input, Step


class Scheduled(Protocol):
    """The schedule that steps are applied to."""

    def take(
        self, prim: str, inputs: Sequence[Input | str], decision: Decision | None = None, **attrs: Any
    ) -> tuple[RV, ...]: ...


class Move(NamedTuple):
    """A step of a trace that is being replayed.
    It has the trace's names and the names of its inputs `here`.

    `decision` is None while it is open, and for steps that draw none.
    """

    step: Step
    here: Step
    decision: Decision | None
    is_drawn: bool

    def take_on(self, sch: Scheduled) -> tuple[RV, ...]:
        """Take the step on `sch`; return what it made. Raises ScheduleError."""
        return sch.take(self.here.prim, self.here.inputs, self.decision, **dict(self.here.attrs))


def play(moves: Iterable[Move], take: Callable[[Move], Sequence[RV]]) -> None:
    """Replay `moves` in order.

    `take` carries a move out and returns its results, by which later moves find their inputs.
    """
    names: dict[RV, RV] = {}
    for move in moves:
        inputs = tuple(names[i] if isinstance(i, RV) else i for i in move.step.inputs)
        names.update(zip(move.step.outputs, take(move._replace(here=replace(move.step, inputs=inputs)))))
