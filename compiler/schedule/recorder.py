"""What a schedule is without its primitives: a function, the steps so far, and how one more is taken.

`Recorder.take` applies a primitive by its name and records the step; `replay` takes the steps of a trace again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar, overload

import numpy as np

from compiler.errors import IRError, ScheduleError
from compiler.ir.module import IRModule
from compiler.schedule import primitives as _primitives  # noqa: F401  (registers them)
from compiler.schedule.rv import RV, BlockRV, ExprRV, LoopRV
from compiler.schedule.state import Illegal, State, block_path, loop_at, loop_path, realize_at
from compiler.schedule.step import (
    Decision,
    Input,
    Step,
    apply,
    as_error,
    bind_outputs,
    get_primitive,
    perform,
    resolve,
)
from compiler.schedule.trace import Trace
from compiler.tir import nodes as n

T = TypeVar("T", BlockRV, LoopRV, ExprRV)


class Recorder:
    """The function scheduled, what the names of blocks, loops and values stand for, and the steps taken."""

    def __init__(self, func_or_mod: n.PrimFunc | IRModule, seed: int | None = None) -> None:
        func, self._mod, self._name = _function_of(func_or_mod)
        self._state = State(func)
        self._steps: list[Step] = []
        self._decisions: list[Decision | None] = []
        self._count = {BlockRV: 0, LoopRV: 0, ExprRV: 0}
        self._rng = np.random.default_rng(seed)

    @classmethod
    def replay(cls, func: n.PrimFunc | IRModule, trace: Trace, seed: int | None = None) -> Self:
        """The schedule that `trace` makes of `func`; open decisions are drawn from `seed`."""
        sch = cls(func, seed)
        decisions = iter(trace.decisions)
        for step in trace.steps:
            decision: Decision | None = None
            if get_primitive(step.prim).draw is not None:
                decision = next(decisions)
                decision = sch._drawn(step) if decision is None else decision
                sch._decisions.append(decision)
            sch._state = apply(sch._state, step, decision)
            sch._steps.append(step)
            for rv in step.outputs:
                sch._count[type(rv)] = max(sch._count[type(rv)], rv.id + 1)
        return sch

    # ------------------------------------------------------------------------------ reading

    @property
    def func(self) -> n.PrimFunc:
        """The function as scheduled so far."""
        return self._state.func

    @property
    def mod(self) -> IRModule:
        """The module with the scheduled function in it."""
        functions = {**self._mod.functions, self._mod.get_global_var(self._name): self.func}
        return self._mod.with_functions(functions)

    @property
    def state(self) -> State:
        return self._state

    @property
    def trace(self) -> Trace:
        """The steps so far: the record from which `apply_trace` makes this schedule again."""
        return Trace(tuple(self._steps), tuple(self._decisions))

    @overload
    def get(self, rv: LoopRV) -> n.For: ...
    @overload
    def get(self, rv: BlockRV) -> n.Block: ...
    @overload
    def get(self, rv: ExprRV) -> int: ...
    def get(self, rv: RV) -> n.For | n.Block | int:
        """What `rv` stands for now: a loop, a block, or the integer decided."""
        try:
            value = self._state.value(rv)
            if isinstance(value, n.Var):
                return loop_at(loop_path(self.func, value))
            if isinstance(value, str):
                return realize_at(block_path(self.func, value)).block
            return value
        except Illegal as broken:
            raise as_error("get", self.func, broken) from None

    def show(self) -> None:
        """Print the function."""
        print(self.func.script())

    def copy(self) -> Self:
        """A schedule of its own in the same state; variables made so far work in both."""
        other = type(self)(self._mod)
        other._name, other._state = self._name, self._state
        other._steps, other._decisions = list(self._steps), list(self._decisions)
        other._count = dict(self._count)
        other._rng = np.random.default_rng(int(self._rng.integers(1 << 62)))
        return other

    # ---------------------------------------------------------------------------- recording

    def take(
        self, prim: str, inputs: Sequence[Input], decision: Decision | None = None, **attrs: Any
    ) -> tuple[RV, ...]:
        """Apply a primitive by its name, record the step, and name its results."""
        primitive = get_primitive(prim)
        step = Step(prim, tuple(_input(i) for i in inputs), tuple((k, attrs[k]) for k in primitive.attrs))
        if primitive.draw is not None and decision is None:
            decision = self._drawn(step)
        effect = perform(self._state, step, decision)
        outputs = tuple(self._fresh(primitive.output_type) for _ in effect.outputs)
        self._state = bind_outputs(self._state, effect, outputs)
        self._steps.append(Step(prim, step.inputs, step.attrs, outputs))
        if primitive.draw is not None:
            self._decisions.append(decision)
        return outputs

    def _drawn(self, step: Step) -> Decision:
        """A decision for a sampling step, drawn at random."""
        draw = get_primitive(step.prim).draw
        assert draw is not None
        try:
            return draw(self._rng, self.func, *(resolve(self._state, i) for i in step.inputs), **dict(step.attrs))
        except Illegal as broken:
            raise as_error(step.prim, self.func, broken) from None

    def _fresh(self, kind: type[BlockRV] | type[LoopRV] | type[ExprRV] | None) -> RV:
        assert kind is not None
        number = self._count[kind]
        self._count[kind] = number + 1
        return kind(number)


def one(kind: type[T], outputs: tuple[RV, ...]) -> T:
    """The one result of a step, which is of `kind`."""
    [rv] = all_of(kind, outputs)
    return rv


def all_of(kind: type[T], outputs: tuple[RV, ...]) -> list[T]:
    """The results of a step, which are of `kind`."""
    return [rv for rv in outputs if isinstance(rv, kind)]


def _function_of(func_or_mod: n.PrimFunc | IRModule) -> tuple[n.PrimFunc, IRModule, str]:
    """The function to schedule, its module and its name."""
    mod = IRModule.from_expr(func_or_mod) if isinstance(func_or_mod, n.PrimFunc) else func_or_mod
    if not isinstance(mod, IRModule):
        raise IRError(f"Schedule needs a PrimFunc or an IRModule, got {type(func_or_mod).__name__}")
    names = [g.name_hint for g in mod.functions]
    name = names[0] if len(names) == 1 else "main"
    func = mod[name]
    if not isinstance(func.body, n.BlockRealize):
        raise ScheduleError(f"function {name!r} has no blocks: it was lowered, and cannot be scheduled any more")
    return func, mod, name


def _input(value: Any) -> Input:
    if isinstance(value, n.IntImm):
        return value.value
    if isinstance(value, np.integer):
        return int(value)
    return value  # type: ignore[no-any-return]
