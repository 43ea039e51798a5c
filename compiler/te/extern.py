"""Operations whose computation is a statement written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.te.layouts import written_by_address
from compiler.te.tag import chosen
from compiler.te.tensor import Operation, Tensor, as_shape, check_dtype, shape_text
from compiler.te.where import at, caller_span, here, placing
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import free_vars

_CALLS_OUT = frozenset({"tir.tvm_call_packed", "tir.call_extern"})
"""What runs functions that are known by name only. Calling one may be all that a body is for."""


@dataclass(frozen=True, eq=False, repr=False)
class ExternOp(Operation):
    """An operation computed by the statement `body`: it reads `in_buffers` and writes `out_buffers`.

    The `inputs` are what it reads. `temporaries` are buffers that it uses besides.
    """

    inputs: tuple[Tensor, ...] = ()
    in_buffers: tuple[n.Buffer, ...] = ()
    out_buffers: tuple[n.Buffer, ...] = ()
    body: Stmt = field(default_factory=lambda: n.Evaluate(n.IntImm("int32", 0)))
    temporaries: tuple[n.Buffer, ...] = ()

    def __post_init__(self) -> None:
        outputs = tuple(Tensor(self, i, b.shape, b.dtype) for i, b in enumerate(self.out_buffers))
        object.__setattr__(self, "_outputs", outputs)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return self.inputs

    def reading(self, inputs: tuple[Tensor, ...]) -> ExternOp:
        """Return the same computation of other inputs."""
        return ExternOp(
            self.name, self.tag, self.attrs, self.span,
            inputs, self.in_buffers, self.out_buffers, self.body, self.temporaries,
        )  # fmt: skip


def extern(
    shape: Any, inputs: Sequence[Tensor], fcompute: Callable[[Sequence[n.Buffer], Sequence[n.Buffer]], Any],
    name: str = "extern", dtype: str | Sequence[str] | None = None,
    in_buffers: Sequence[n.Buffer] | n.Buffer | None = None, out_buffers: Sequence[n.Buffer] | n.Buffer | None = None,
    tag: str = "", attrs: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Return tensors computed by the statement of `fcompute(ins, outs)`.

    It is mostly made with `tir.ir_builder`. `ins` and `outs` are buffers. `shape` is one shape, or a list of them for
    several outputs, returned as a list. `dtype` (one, or one an output) is the inputs' where they all have the same.
    Raises IRError, with the user's line, when dtypes cannot be told, buffers do not fit, or the result is no statement.
    """
    span = caller_span()
    where = f"extern {name!r}"
    tensors = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for position, item in enumerate(tensors):
        if not isinstance(item, Tensor):
            raise IRError(f"{where}: input {position} is no tensor but a {type(item).__name__}" + at(span))
    shapes, several = _shapes(shape, where)
    dtypes = _dtypes(dtype, len(shapes), tensors, where)
    ins = _given(in_buffers, [(t.shape, t.dtype, t.name) for t in tensors], where, "in")
    names = [name if len(shapes) == 1 else f"{name}.v{i}" for i in range(len(shapes))]
    outs = _given(out_buffers, list(zip(shapes, dtypes, names)), where, "out")
    with placing(where, span):
        made = fcompute(list(ins), list(outs))
    if isinstance(made, PrimExpr):
        made = n.Evaluate(made)
    if not isinstance(made, Stmt):
        raise IRError(
            f"{where}: its function returned {type(made).__name__}, not a statement" + at(span),
            hint="build one with tir.ir_builder.create() and return ib.get()",
        )
    body, temporaries = lift_allocations(only_reading(made, {b.data for b in ins}), where)
    op = ExternOp(name, chosen(tag), dict(attrs or {}), span, tuple(tensors), ins, outs, body, temporaries)
    _check_buffers(op)
    results = [op.output(i) for i in range(op.num_outputs)]
    return results if several else results[0]


def _shapes(shape: Any, where: str) -> tuple[list[tuple[PrimExpr, ...]], bool]:
    items = list(shape) if isinstance(shape, tuple | list) else [shape]
    several = bool(items) and isinstance(items[0], tuple | list)
    return [as_shape(item, where) for item in (items if several else [items])], several


def _dtypes(dtype: str | Sequence[str] | None, count: int, inputs: Sequence[Tensor], where: str) -> list[str]:
    if dtype is None:
        found = sorted({tensor.dtype for tensor in inputs})
        if len(found) != 1:
            has = f"its inputs have {', '.join(found)}" if found else "it has no inputs"
            raise IRError(
                f"{where}: the dtype of its outputs is not known: {has}" + here(), hint="give dtype="
            )
        return found * count
    dtypes = [dtype] * count if isinstance(dtype, str) else list(dtype)
    if len(dtypes) != count:
        raise IRError(f"{where}: {count} outputs, {len(dtypes)} dtypes" + here())
    return [check_dtype(item, where) for item in dtypes]


def _given(
    buffers: Sequence[n.Buffer] | n.Buffer | None,
    wanted: Sequence[tuple[tuple[PrimExpr, ...], str, str]],
    where: str,
    side: str,
) -> tuple[n.Buffer, ...]:
    """The buffers the user gave, or new ones like the tensors."""
    if buffers is None:
        return tuple(n.decl_buffer(shape, dtype, name) for shape, dtype, name in wanted)
    items = (buffers,) if isinstance(buffers, n.Buffer) else tuple(buffers)
    if len(items) != len(wanted):
        raise IRError(f"{where}: {len(wanted)} {side}_buffers are needed, got {len(items)}" + here())
    for buffer, (shape, dtype, name) in zip(items, wanted):
        if buffer.dtype != dtype or len(buffer.shape) != len(shape):
            raise IRError(
                f"{where}: buffer {buffer.name!r} ({buffer.dtype}, {len(buffer.shape)} dimensions) does not fit "
                f"{name!r} ({dtype}, shape {shape_text(shape)})" + here()
            )
    return items


def only_reading(stmt: Stmt, inputs: Set[n.Var]) -> Stmt:
    """Mark `inputs` as read-only where `stmt` passes them to registered functions as arrays."""

    def visit(node: Node) -> Node:
        if isinstance(node, n.Call) and getattr(node.op, "name", "") == "tir.tvm_stack_make_array":
            pointer = node.args[0]
            if isinstance(pointer, n.Call) and pointer.args[1] in inputs:
                read = replace(pointer, args=(*pointer.args[:4], ops.as_expr(1)))
                return replace(node, args=(read, *node.args[1:]))
        return map_children(node, visit)

    result = visit(stmt)
    assert isinstance(result, Stmt)
    return result


def lift_allocations(stmt: Stmt, where: str) -> tuple[Stmt, tuple[n.Buffer, ...]]:
    """Return `stmt` without its allocations, and their buffers.

    The block around it will declare them. Raises IRError when a size depends on a loop.
    """
    by_data = {node.buffer.data: node.buffer for node in walk(stmt) if isinstance(node, n.BufferLoad | n.BufferStore)}
    loops = {node.loop_var for node in walk(stmt) if isinstance(node, n.For)}
    found: list[n.Buffer] = []

    def lift(node: Node) -> Node:
        if not isinstance(node, n.Allocate):
            return map_children(node, lift)
        if any(var in loops for extent in node.extents for var in free_vars(extent)):
            raise IRError(f"{where}: the size of {node.buffer_var.name!r} depends on a loop" + here())
        if node.buffer_var in by_data:
            found.append(by_data[node.buffer_var])
        return lift(node.body)

    result = lift(stmt)
    assert isinstance(result, Stmt)
    return result, tuple(found)


def _check_buffers(op: ExternOp) -> None:
    """Check the body's buffers.
    It uses no others, writes no input, and writes each output unless it calls external functions."""
    known = {*op.in_buffers, *op.out_buffers, *op.temporaries}
    written: set[n.Buffer] = set()
    for node in walk(op.body):
        if isinstance(node, n.BufferLoad | n.BufferStore) and node.buffer not in known:
            raise IRError(
                f"extern {op.name!r} uses buffer {node.buffer.name!r}, none of its inputs or outputs" + at(op.span),
                hint="pass its tensor in `inputs`, or allocate it with the builder",
            )
        if isinstance(node, n.BufferStore):
            written.add(node.buffer)
    by_address = written_by_address(op.body)
    written.update(buffer for buffer in known if buffer.data in by_address)
    calls = any(isinstance(node, n.Call) and getattr(node.op, "name", "") in _CALLS_OUT for node in walk(op.body))
    for buffer in op.out_buffers:
        if buffer not in written and not calls:
            raise IRError(f"extern {op.name!r} never writes its output {buffer.name!r}" + at(op.span))
    stored = {node.buffer for node in walk(op.body) if isinstance(node, n.BufferStore)}
    for buffer in op.in_buffers:
        if buffer in stored:
            raise IRError(f"extern {op.name!r} writes its input {buffer.name!r}" + at(op.span))
