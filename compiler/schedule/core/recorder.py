"""The state of a schedule.

Functions, the values of names, the steps so far, and how to take one more step.

`Recorder.take` applies a primitive by its name and records the step; `replay` takes the steps of a trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, assert_never, get_args

import numpy as np

from compiler.errors import IRError, ScheduleError
from compiler.ir.module import IRModule
from compiler.schedule import primitives as _primitives  # noqa: F401  (registers them)
from compiler.schedule.core.effects import Effects
from compiler.schedule.core.rv import RV, Block, BlockRV, ExprRV, LoopRV
from compiler.schedule.core.state import Illegal, TraceState, block_path, loop_at, loop_path, realize_at
from compiler.schedule.core.step import (
    FUNC_NAME,
    Decision,
    Input,
    Step,
    apply,
    as_error,
    attributes,
    bind_outputs,
    get_primitive,
    perform,
    resolve,
    scene,
)
from compiler.schedule.core.trace import Trace
from compiler.tir import nodes as n
from compiler.tir.verify import LoweringStage, verify

BufferOf = tuple[str, int] | str | n.Buffer  # a buffer of a block: ("read" or "write", index), its name, or itself
RenderLevel = Literal["detail", "fast", "none"]


class ScheduleOptionError(ScheduleError, ValueError, kind="schedule_option"):
    """An unknown option of a schedule."""


class StepRecorder:
    """The scheduled functions, the values of names of blocks, loops and integers, and the steps taken.

    The arguments are those of `Schedule`. Raises ScheduleError for functions that were lowered, IRError for anything
    but a function or module.
    """

    def __init__(
        self,
        mod: n.PrimFunc | IRModule,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: RenderLevel = "detail",
    ) -> None:
        self._mod = _module_of(mod)
        self.state = _begin(self._mod)
        self.working = self.state.main
        self._verifies = _checks_after_steps(debug_mask)
        if error_render_level not in get_args(RenderLevel):
            levels = ", ".join(get_args(RenderLevel))
            raise ScheduleOptionError(f"error_render_level is one of {levels}, got {str(error_render_level)[:40]!r}")
        self._render = error_render_level
        self._steps: list[Step] = []
        self._decisions: list[Decision | None] = []
        self._count = {BlockRV: 0, LoopRV: 0, ExprRV: 0}
        self.rng = np.random.default_rng(seed)

    def copy(self) -> StepRecorder:
        """A recorder of its own in the same state."""
        other = StepRecorder(self._mod, None, int(self._verifies), self._render)
        other.working, other.state = self.working, self.state
        other._steps, other._decisions = list(self._steps), list(self._decisions)
        other._count = dict(self._count)
        other.rng = np.random.default_rng(int(self.rng.integers(1 << 62)))
        return other

    # ------------------------------------------------------------------------------ reading

    @property
    def func(self) -> n.PrimFunc:
        """The function that is worked on, as scheduled so far."""
        try:
            return self.state.function(self.working)
        except Illegal as broken:
            raise as_error("func", None, broken) from None

    @property
    def mod(self) -> IRModule:
        """The module with the functions as scheduled so far.
        Those of other dialects stay as they were."""
        scheduled = self.state.functions
        return self._mod.with_functions({g: scheduled.get(g.name_hint, func) for g, func in self._mod.items()})

    @property
    def trace(self) -> Trace:
        """The steps so far."""
        return Trace(tuple(self._steps), tuple(self._decisions))

    def work_on(self, func_name: str) -> None:
        """Look for blocks in the function `func_name` from now on. Raises ScheduleError."""
        try:
            self.state.function(func_name)
        except Illegal as broken:
            raise self._rendered(as_error("work_on", None, broken)) from None
        self.working = func_name

    def get(self, rv: RV | str) -> n.For | n.Block | int:
        """Return the current value of `rv`, or of a block's name: a loop, a block, or the decided integer."""
        func: n.PrimFunc | None = None
        try:
            value = rv if isinstance(rv, str) else self.state.value(rv)
            if isinstance(value, int):
                return value
            func = self.state.function(self.working if isinstance(rv, str) else self.state.home(rv))
            if isinstance(value, n.Var):
                return loop_at(loop_path(func, value))
            if not isinstance(value, str):
                raise Illegal(f"{rv} is only known when the function runs")
            return realize_at(block_path(func, value)).block
        except Illegal as broken:
            raise self._rendered(as_error("get", func, broken)) from None

    def name_size(self, size: n.PrimExpr) -> ExprRV:
        """A name for a size that is only known when the function runs.
        No trace can hold the steps that use it."""
        name = ExprRV()
        self.state = replace(self.state, env={**self.state.env, name: size})
        return name

    def index_of(
        self, block: Block, accesses: Literal["reads", "writes"], buffer: int | str | n.Buffer, either: bool = False
    ) -> int:
        """The position of a buffer among what `block` reads or writes.
        Raises ScheduleError where it is not there."""
        regions: tuple[n.BufferRegion, ...] = getattr(self.get(block), accesses)
        if isinstance(buffer, int):
            return buffer
        for index, region in enumerate(regions):
            if region.buffer is buffer or region.buffer.name == buffer:
                return index
        how = "read or written" if either else {"reads": "read", "writes": "written"}[accesses]
        known = ", ".join(r.buffer.name for r in regions) or "none"
        name = buffer if isinstance(buffer, str) else buffer.name
        raise ScheduleError(f"buffer {name!r} is not {how} by the block", hint=f"these are: {known}")

    def place_of(self, block: Block, buffer: BufferOf) -> tuple[str, int]:
        """Where the buffer is among those that `block` writes, or else reads."""
        if isinstance(buffer, tuple):
            return buffer
        try:
            return "write", self.index_of(block, "writes", buffer)
        except ScheduleError:
            return "read", self.index_of(block, "reads", buffer, either=True)

    def loop_var(self, rv: LoopRV) -> n.Var:
        """Return the variable of the loop that `rv` stands for, without a search for the loop."""
        found = self.state.env[rv]
        assert isinstance(found, n.Var)
        return found

    def knows(self, rv: RV) -> bool:
        """Whether `rv` stands for something here."""
        return rv in self.state.env

    def forget(self, rv: RV) -> None:
        """Let `rv` stand for nothing any more."""
        env = {known: value for known, value in self.state.env.items() if known != rv}
        self.state = replace(self.state, env=env)

    # ---------------------------------------------------------------------------- recording

    def replay(self, trace: Trace, effects: Effects | None = None) -> None:
        """Take the steps of `trace`; open decisions are drawn.
        Effects that `effects` knows are not computed again, and new ones are added to it."""
        for step, _, decision, is_drawn in trace.moves():
            if is_drawn:
                decision = self._drawn(step) if decision is None else decision
                self._decisions.append(decision)
            self.state = apply(self.state, step, decision, effects)
            self._steps.append(step)
            for rv in step.outputs:
                self._count[type(rv)] = max(self._count[type(rv)], rv.id + 1)

    def take(
        self, prim: str, inputs: Sequence[Input | str], decision: Decision | None = None, **attrs: Any
    ) -> tuple[RV, ...]:
        """Apply a primitive by its name, record the step, and name its results.
        A block given by its name adds a `get_block` step first."""
        before = self.state, len(self._steps), dict(self._count)
        try:
            found = [self._find(i) if isinstance(i, str) else _input(i) for i in inputs]
            return self._taken(prim, found, decision, attrs)
        except ScheduleError as error:
            self.state, self._count = before[0], before[2]
            del self._steps[before[1] :]
            raise self._rendered(error) from error.__cause__

    def _find(self, block_name: str) -> RV:
        """The block called `block_name` in the function that is worked on, by a step of its own."""
        attrs = {"name": block_name, FUNC_NAME: None if self.working == self.state.main else self.working}
        [block] = self._taken("get_block", (), None, attrs)
        return block

    def _taken(
        self, prim: str, inputs: Sequence[Input], decision: Decision | None, attrs: dict[str, Any]
    ) -> tuple[RV, ...]:
        primitive = get_primitive(prim)
        given = {**primitive.defaults, **attrs}
        step = Step(prim, tuple(inputs), primitive.stated({k: given[k] for k in primitive.attrs}))
        if primitive.draw is not None and decision is None:
            decision = self._drawn(step)
        effect = perform(self.state, step, decision)
        if self._verifies:
            verify(effect.func, LoweringStage.BLOCKS)
        outputs = tuple(self._fresh(primitive.output_type) for _ in effect.outputs)
        self.state = bind_outputs(self.state, effect, outputs)
        self._steps.append(Step(prim, step.inputs, step.attrs, outputs))
        if primitive.draw is not None:
            self._decisions.append(decision)
        return outputs

    def _rendered(self, error: ScheduleError) -> ScheduleError:
        """Return `error` with as much detail as the schedule was asked to show."""
        match self._render:
            case "detail":
                return error
            case "fast":
                return type(error)(error.message.partition("\n")[0], hint=error.hint, detail=error.detail)
            case "none":
                hint = 'error_render_level="detail" says why'
                return type(error)("a step is illegal (not rendered)", hint=hint, detail=error.detail)
        assert_never(self._render)

    def _drawn(self, step: Step) -> Decision:
        """A decision for a sampling step, drawn at random."""
        draw = get_primitive(step.prim).draw
        assert draw is not None
        func: n.PrimFunc | None = None
        try:
            _, func = scene(self.state, step)
            return draw(self.rng, func, *(resolve(self.state, i) for i in step.inputs), **attributes(step))
        except Illegal as broken:
            raise as_error(step.prim, func, broken) from None

    def _fresh(self, kind: type[BlockRV] | type[LoopRV] | type[ExprRV] | None) -> RV:
        assert kind is not None
        number = self._count[kind]
        self._count[kind] = number + 1
        return kind(number)


def _module_of(func_or_mod: n.PrimFunc | IRModule) -> IRModule:
    mod = IRModule({"main": func_or_mod}) if isinstance(func_or_mod, n.PrimFunc) else func_or_mod
    if not isinstance(mod, IRModule):
        raise IRError(f"Schedule needs a PrimFunc or an IRModule, got {type(func_or_mod).__name__}")
    if not n.prim_funcs(mod):
        raise IRError("Schedule needs a module with a function in it, this one has none")
    return mod


def _begin(mod: IRModule) -> TraceState:
    """Return the module before any step. Its only function, or the one called "main", is worked on."""
    state = TraceState.of({g.name_hint: f for g, f in n.prim_funcs(mod).items()})
    if state.main is not None:
        try:
            state.function(state.main)
        except Illegal as broken:
            raise ScheduleError(broken.rule, hint=broken.hint) from None
    return state


def _checks_after_steps(debug_mask: str | int) -> bool:
    if debug_mask in ("all", "none"):
        return debug_mask == "all"
    if isinstance(debug_mask, int) and 0 <= debug_mask <= 3:
        return debug_mask != 0
    raise ScheduleError(f"debug_mask is 'all', 'none' or a number from 0 to 3, got {str(debug_mask)[:40]!r}")


def _input(value: Any) -> Input:
    if isinstance(value, n.IntImm):
        return value.value
    if isinstance(value, np.integer):
        return int(value)
    return value  # type: ignore[no-any-return]
