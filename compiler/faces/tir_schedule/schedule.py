"""`Schedule` with what programs for Apache TVM ask of it beyond its steps."""

from __future__ import annotations

from typing import Any

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.state import ScheduleState, StmtSRef
from compiler.faces.tir_schedule.trace import Trace
from compiler.ir.module import IRModule
from compiler.schedule.core import schedule as core
from compiler.schedule.core.rv import Block, BlockRV, ExprRV, LoopRV
from compiler.schedule.core.trace import Trace as CoreTrace
from compiler.tir import nodes as n


class UnknownVariableError(ScheduleError, IndexError, kind="unknown_variable"):
    """A block, loop or value that the schedule does not know (any more)."""


class Schedule(core.Schedule):
    """Schedules a function, or the functions of a module.

    The steps and the arguments are those of the compiler's `Schedule`. The trace is one of instructions, and places of
    statements can be asked for.
    """

    @property
    def trace(self) -> Trace:
        """The steps so far, as a copy of its own."""
        return Trace.of(super().trace)

    @property
    def state(self) -> ScheduleState:
        """The module, and where its blocks and loops stand."""
        return ScheduleState.of(self)

    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """`get_block`, as newer versions of TVM call it."""
        return self.get_block(name, func_name)

    def get(self, rand_var_or_sref: Any) -> Any:
        """Return what a variable, the name of a block, or a place stands for now.
        Raises UnknownVariableError for a variable of another schedule."""
        match rand_var_or_sref:
            case StmtSRef():
                return rand_var_or_sref.stmt
            case BlockRV() | LoopRV() | ExprRV() if not self._recorder.knows(rand_var_or_sref):
                raise UnknownVariableError(f"get: {rand_var_or_sref} is no block, loop or value of this schedule")
        return super().get(rand_var_or_sref)

    def get_sref(self, rand_var_or_stmt: BlockRV | LoopRV | n.Block | n.For) -> StmtSRef | None:
        """The place of a block or loop, given by its variable or itself.
        Raises ScheduleError for a variable of another schedule."""
        stmt = rand_var_or_stmt
        found = self.get(stmt) if isinstance(stmt, BlockRV | LoopRV) else stmt
        return self.state.get_sref(found)

    def remove_rv(self, rand_var: BlockRV | LoopRV | ExprRV) -> None:
        """Forget a variable: it stands for nothing any more."""
        self.get(rand_var)
        self._recorder.forget(rand_var)

    def can_decompose_padding(self, block: Block, loop: LoopRV) -> bool:
        """Whether `decompose_padding` of `block` at `loop` is legal."""
        try:
            self.copy().decompose_padding(block, loop)
        except ScheduleError:
            return False
        return True


class ReplayedLater(Schedule):
    """The schedule of a trace that is known to be legal.
    The trace is replayed when more than itself is asked for."""

    def __init__(self, func: n.PrimFunc | IRModule, trace: CoreTrace) -> None:
        self._given = func, trace

    @property
    def trace(self) -> Trace:
        """The steps so far, as a copy of its own."""
        return super().trace if "_recorder" in vars(self) else Trace.of(self._given[1])

    def __getattr__(self, name: str) -> Any:
        if name != "_recorder":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._recorder = core.Schedule.replay(*self._given)._recorder
        return self._recorder
