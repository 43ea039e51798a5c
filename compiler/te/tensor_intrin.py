"""Tensor intrinsics: a small computation, and the statement that performs it on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import IRError
from compiler.te.extern import lift_allocations
from compiler.te.tensor import ComputeOp, Operation, Tensor
from compiler.te.where import at, caller_span, placing
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, Stmt


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """`body` computes all of `op` from `inputs`.
    Their elements are in `buffers` (inputs, then outputs). For a reduction, `reduce_init` sets the outputs to the unit
    and `reduce_update` adds to them, if they are given. `temporaries` are buffers that the statements use besides."""

    name: str
    op: ComputeOp
    inputs: tuple[Tensor, ...]
    buffers: tuple[n.Buffer, ...]
    body: Stmt | None
    reduce_init: Stmt | None
    reduce_update: Stmt | None
    temporaries: tuple[n.Buffer, ...]
    scalar_params: tuple[n.Var, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors in `buffers`."""
        return (*self.inputs, *(self.op.output(i) for i in range(self.op.num_outputs)))

    def __call__(self, *args: Any, reduce_axis: n.IterVar | Sequence[n.IterVar] = ()) -> IntrinCall:
        """Compute a region of a stage: `te.compute((n, 4), lambda i: vadd(A[i, 0:4], B[i, 0:4]))`.

        `args` are the regions of its inputs, and a number for each scalar parameter, each in their order.
        """
        axes = (reduce_axis,) if isinstance(reduce_axis, n.IterVar) else tuple(reduce_axis)
        return IntrinCall(self, args, axes)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"


@dataclass(frozen=True, slots=True, eq=False)
class IntrinCall:
    """A call of an intrinsic, which computes the elements. The function of a `te.compute` returns it."""

    intrin: TensorIntrin
    args: tuple[Any, ...]
    reduce_axes: tuple[n.IterVar, ...]


def decl_tensor_intrin(
    op: Operation, fcompute: Callable[..., Any], name: str = "tensor_intrin",
    binds: Mapping[Tensor, n.Buffer] | None = None, scalar_params: Sequence[n.Var] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:  # fmt: skip
    """Declare that `fcompute(ins, outs)` does what `op` computes, for `Stage.tensorize`.

    `ins` and `outs` are buffers of the inputs and outputs of `op`, made with `default_buffer_params`, or those that
    `binds` gives. If `scalar_params` are given, variables that `op` uses, `fcompute` gets them third. It returns a
    statement, mostly made with `tir.ir_builder`, or a tuple (body, reduce_init, reduce_update) of which each may be
    None. Raises IRError, with the user's line, when `op` is no compute or the result is no statement.
    """
    span = caller_span()
    where = f"tensor intrinsic {name!r}"
    if not isinstance(op, ComputeOp):
        raise IRError(f"{where}: it must compute what a te.compute does, got {type(op).__name__}" + at(span))
    outputs = [op.output(i) for i in range(op.num_outputs)]
    chosen = binds or {}
    tensors = (*op.input_tensors, *outputs)
    for tensor, buffer in chosen.items():
        if tensor not in tensors or buffer.dtype != tensor.dtype or len(buffer.shape) != tensor.ndim:
            raise IRError(f"{where}: buffer {buffer.name!r} does not fit tensor {tensor.name!r}" + at(span))
    params = dict(default_buffer_params or {})
    scalars = () if scalar_params is None else (tuple(scalar_params),)
    buffers = tuple(
        chosen[t] if t in chosen else n.decl_buffer(t.shape, t.dtype, t.name.replace(".", "_"), **params)
        for t in tensors
    )
    count = len(op.input_tensors)
    with placing(f"decl_tensor_intrin {name!r}", span):
        made = fcompute(list(buffers[:count]), list(buffers[count:]), *scalars)
    parts = list(made) if isinstance(made, tuple | list) else [made]
    if len(parts) > 3 or not any(part is not None for part in parts):
        raise IRError(f"{where}: its function must return a statement or (body, reduce_init, reduce_update)" + at(span))
    statements: list[Stmt | None] = [None, None, None]
    temporaries: list[n.Buffer] = []
    for position, part in enumerate(parts):
        if part is None:
            continue
        stmt = n.Evaluate(part) if isinstance(part, PrimExpr) else part
        if not isinstance(stmt, Stmt):
            raise IRError(f"{where}: its function returned {type(part).__name__}, not a statement" + at(span))
        statements[position], held = lift_allocations(stmt, where)
        temporaries.extend(held)
    body, reduce_init, reduce_update = statements
    parts_of_it = (buffers, body, reduce_init, reduce_update, tuple(temporaries))
    return TensorIntrin(name, op, op.input_tensors, *parts_of_it, tuple(scalar_params or ()))
