"""A state: a computation as far as it is scheduled. A record holds its schedule's trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.tir.nodes import PrimFunc


class State:
    """`trace` applied to a function, when it is first looked at.

    Raises ScheduleError there when it does not apply. `func` may be made when it is needed: records are read without
    the workloads they are of.
    """

    def __init__(self, func: PrimFunc | Callable[[], PrimFunc], trace: Trace | None = None) -> None:
        self._func = func
        self.trace = Trace() if trace is None else trace

    @cached_property
    def func(self) -> PrimFunc:
        """The function without any schedule."""
        return self._func if isinstance(self._func, PrimFunc) else self._func()

    @cached_property
    def schedule(self) -> Schedule:
        """The TensorIR schedule."""
        return apply_trace(self.func, self.trace)

    @property
    def transform_steps(self) -> tuple[object, ...]:
        """The steps taken."""
        return self.trace.steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.trace == other.trace

    def __hash__(self) -> int:
        return hash(self.trace.to_json())

    def __str__(self) -> str:
        """The loops, as TVMScript."""
        return self.schedule.func.script()

    def __repr__(self) -> str:
        return f"State({len(self.trace.steps)} steps)"
