"""A computation of te: its tensors and operations, printed a line each, and its function."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from compiler.ir.base import GlobalVar
from compiler.te.prim_func import create_prim_func
from compiler.te.schedule.schedule import Schedule as TeSchedule
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.text.print_func import workload_key
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.auto_scheduler.state import State
from tuner.faces.auto_scheduler.workload_registry import workload_key_to_tensors
from tuner.task import count_flops

_UPDATES: dict[type[n.PrimExpr], str] = {n.Add: "+=", n.Mul: "*=", n.Max: "max=", n.Min: "min="}


class KernelTensors(list[Tensor]):
    """The tensors of a graph's kernel `func`, which is scheduled as the graph has it."""

    def __init__(self, tensors: Sequence[Tensor], func: n.PrimFunc) -> None:
        super().__init__(tensors)
        self.func = func


class ComputeDAG:
    """The computation of `tensors`: inputs and outputs in calling order.
    Also made of a te schedule's outputs, or of the key of a registered workload. Raises SchedulerError for anything
    else, or a symbolic size."""

    def __init__(self, compute_or_sche: Any) -> None:
        match compute_or_sche:
            case str():
                tensors = workload_key_to_tensors(compute_or_sche)
            case TeSchedule():
                tensors = [op.output(0) for op in compute_or_sche.outputs]
                tensors = [*(t for t in _inputs(tensors)), *tensors]
            case KernelTensors():
                tensors = compute_or_sche
            case [*items] if items and all(isinstance(t, Tensor) for t in items):
                tensors = list(items)
            case _:
                raise SchedulerError(
                    "a compute DAG is made of te tensors (inputs and outputs), a te schedule or a workload's key, "
                    f"got {type(compute_or_sche).__name__}"
                )
        for tensor in tensors:
            if any(as_int(d) is None for d in tensor.shape):
                raise SchedulerError(
                    f"tensor {tensor.name!r} has a symbolic size", hint="give it a value before tuning"
                )
        self.tensors: list[Tensor] = tensors
        self._kernel = tensors.func if isinstance(tensors, KernelTensors) else None

    @property
    def ops(self) -> list[Operation]:
        """The operations, producers first."""
        return topological([t for t in self.tensors if not isinstance(t.op, PlaceholderOp)])

    @cached_property
    def func(self) -> n.PrimFunc:
        """The function without any schedule."""
        return create_prim_func(self.tensors, name="main") if self._kernel is None else self._kernel

    @cached_property
    def flop_ct(self) -> float:
        """Operations of a call."""
        return count_flops(self.func)

    @property
    def init_state(self) -> LoopState:
        """Nothing scheduled."""
        return LoopState(self)

    def get_init_state(self) -> LoopState:
        return self.init_state

    def infer_bound_from_state(self, state: State) -> State:
        """Return the state with the range of every iterator.
        Ranges of a state that a search found are always known."""
        return state.with_bounds() if isinstance(state, LoopState) else state

    def workload_key(self) -> str:
        """A key of the computation and its shapes; names do not matter."""
        return json.dumps([workload_key(self.func), *(_shape(t) for t in self.tensors)])

    def hash_key(self) -> str:
        """The key of the computation alone."""
        return workload_key(self.func)

    def apply_steps_from_state(self, state: State, layout_rewrite: Any = None) -> tuple[Any, list[Tensor]]:
        """The schedule of `state` and the arguments, as `tvm.lower` and `tvm.build` take them.
        Raises ScheduleError when the state is of another computation, SchedulerError for a layout rewrite, which
        there is none."""
        no_layout_rewrite(layout_rewrite)
        if isinstance(state, LoopState):
            return LoopState(self, state.transform_steps).replay().schedule, self.tensors
        return State(self.func, state.trace).schedule, self.tensors

    def print_python_code_from_state(self, state: State) -> str:
        """The state as the Python calls that make it."""
        if isinstance(state, LoopState):
            return "\n".join(state.replay().lines) + "\n"
        return State(self.func, state.trace).trace.to_python()

    def __str__(self) -> str:
        """A line an operation, such as `C(i, j) += A[i, k] * B[k, j]`."""
        return "\n".join(line for op in self.ops for line in _lines(op)) + "\n"

    __repr__ = __str__


def no_layout_rewrite(option: Any) -> None:
    """Raise SchedulerError unless a layout rewrite option asks for none."""
    if option not in (None, 0):
        raise SchedulerError("there is no layout rewriting", hint="leave layout_rewrite_option out")


def _inputs(outputs: Sequence[Tensor]) -> list[Tensor]:
    return [op.output(0) for op in topological(list(outputs)) if isinstance(op, PlaceholderOp)]


def _shape(tensor: Tensor) -> list[int]:
    return [size for d in tensor.shape if (size := as_int(d)) is not None]


def _lines(op: Operation) -> list[str]:
    if isinstance(op, PlaceholderOp):
        return [f"{op.name} = PLACEHOLDER {_shape(op.output(0))}"]
    if not isinstance(op, ComputeOp):
        return [f"{op.name} = EXTERN({', '.join(t.name for t in op.input_tensors)})"]
    axes = ", ".join(axis.var.name for axis in op.axis)
    lines = []
    for tensor, body in zip((op.output(i) for i in range(op.num_outputs)), op.body):
        if isinstance(body, n.Reduce):
            source = body.source[body.value_index]
            lines.append(f"{tensor.name}({axes}) {_update(body)} {_c_text(source)}")
        else:
            lines.append(f"{tensor.name}({axes}) = {_c_text(body)}")
    return lines


def _update(reduce: n.Reduce) -> str:
    """The reduction as an assignment, for the combiners that have one."""
    result = reduce.combiner.result
    return _UPDATES.get(type(result[0]), "reduce=") if len(result) == 1 else "reduce="


_SIGNS: dict[type[n.PrimExpr], str] = {
    n.Add: " + ",
    n.Sub: " - ",
    n.Mul: "*",
    n.Div: "/",
    n.Mod: " % ",
    n.EQ: " == ",
    n.NE: " != ",
    n.LT: " < ",
    n.LE: " <= ",
    n.GT: " > ",
    n.GE: " >= ",
    n.And: " && ",
    n.Or: " || ",
}
_CALLED: dict[type[n.PrimExpr], str] = {n.FloorDiv: "floordiv", n.FloorMod: "floormod", n.Min: "min", n.Max: "max"}


def _c_text(expr: n.PrimExpr) -> str:
    """Return an expression as C would spell it, with every operation in parentheses."""
    match expr:
        case n.IntImm():
            return str(expr.value) if expr.dtype == "int32" else f"({expr.dtype}){int(expr.value)}"
        case n.FloatImm(value=value):
            number = f"{value:g}"
            return f"{number}f" if expr.dtype == "float32" else f"({expr.dtype}){number}"
        case n.Var():
            return expr.name
        case n.Cast(value=value):
            return f"{expr.dtype}({_c_text(value)})"
        case n.Not(a=value):
            return f"!{_c_text(value)}"
        case n.Select():
            parts = (expr.condition, expr.true_value, expr.false_value)
            return f"select({', '.join(map(_c_text, parts))})"
        case n.ProducerLoad(producer=producer, indices=indices):
            return f"{_producer_name(producer)}[{', '.join(map(_c_text, indices))}]"
        case n.Call(op=op, args=args):
            name = op.name_hint if isinstance(op, GlobalVar) else op.name
            return f"{name}({', '.join(map(_c_text, args))})"
        case n.BinaryOp(a=a, b=b) if type(expr) in _SIGNS:
            return f"({_c_text(a)}{_SIGNS[type(expr)]}{_c_text(b)})"
        case n.BinaryOp(a=a, b=b) if type(expr) in _CALLED:
            return f"{_CALLED[type(expr)]}({_c_text(a)}, {_c_text(b)})"
    return str(expr)


def _producer_name(producer: object) -> str:
    return producer.name if isinstance(producer, Tensor) else str(producer)
