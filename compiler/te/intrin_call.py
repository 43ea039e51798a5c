"""Stages whose elements a tensor intrinsic computes.

`te.compute((n, 4), lambda i: vadd(A[i, 0:4], B[i, 0:4]))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Span
from compiler.ir.visit import replace
from compiler.lower.analysis.rename import renamed
from compiler.te.extern import ExternOp, only_reading
from compiler.te.layouts import fresh_view, over_buffers
from compiler.te.tag import chosen
from compiler.te.tensor import Tensor, TensorSlice
from compiler.te.tensor_intrin import IntrinCall, TensorIntrin
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, ProducerLoad, Stmt
from compiler.tir.visit import substitute

_TRUE = ops.const(True)
_Region = tuple[Tensor, tuple[n.Range, ...]]


@dataclass(frozen=True)
class _Parts:
    """A call with its regions: those of the inputs, and what the scalar parameters are."""

    intrin: TensorIntrin
    regions: tuple[_Region, ...]
    values: Mapping[n.Var, PrimExpr]


def intrin_op(
    call: IntrinCall, axes: Sequence[n.Var], dims: Sequence[PrimExpr], name: str, tag: str,
    attrs: Mapping[str, Any] | None, span: Span | None,
) -> ExternOp:  # fmt: skip
    """Return the operation that calls an intrinsic at each point of `axes`.

    They are the first of the dimensions `dims`. The intrinsic computes the other dimensions. A schedule treats the
    operation as one written by hand. Raises IRError for regions that do not fit.
    """
    parts = _parts(call, name, span)
    intrin = parts.intrin
    points = [n.Range(axis, ops.const(1, axis.dtype)) for axis in axes]
    whole = [n.Range(ops.const(0, size.dtype), size) for size in dims[len(axes) :]]
    outs = [
        n.decl_buffer(tuple(dims), intrin.op.output(i).dtype, name if intrin.op.num_outputs == 1 else f"{name}.v{i}")
        for i in range(intrin.op.num_outputs)
    ]
    tensors = list(dict.fromkeys(tensor for tensor, _ in parts.regions))
    ins = {tensor: n.decl_buffer(tensor.shape, tensor.dtype, tensor.name) for tensor in tensors}
    reads = [n.BufferRegion(ins[tensor], region) for tensor, region in parts.regions]
    writes = [n.BufferRegion(out, (*points, *whole)) for out in outs]
    if call.reduce_axes:
        body = _reduced(call, parts, reads, writes, name, span)
    else:
        body = _block(parts, intrin.body, reads, writes, f"{name}_intrin")
    for axis, size in zip(reversed(axes), reversed(dims[: len(axes)])):
        body = n.For(axis, ops.const(0, axis.dtype), size, n.ForKind.SERIAL, body)
    return ExternOp(name, chosen(tag), dict(attrs or {}), span, tuple(tensors), tuple(ins.values()), tuple(outs), body)


def outputs_of(op: ExternOp) -> Any:
    """Return the tensor of an operation, or the list of them."""
    tensors = [op.output(i) for i in range(op.num_outputs)]
    return tensors if len(tensors) > 1 else tensors[0]


def _parts(call: IntrinCall, name: str, span: Span | None) -> _Parts:
    where = f"compute {name!r}"
    intrin = call.intrin
    regions: list[_Region] = []
    scalars: list[PrimExpr] = []
    for arg in call.args:
        if isinstance(arg, TensorSlice | ProducerLoad):
            tensor = arg.tensor if isinstance(arg, TensorSlice) else arg.producer
            assert isinstance(tensor, Tensor)
            regions.append((tensor, _region(tensor, arg.indices, where, span)))
        else:
            scalars.append(ops.as_expr(arg))
    if len(regions) != len(intrin.inputs) or len(scalars) != len(intrin.scalar_params):
        raise IRError(
            f"{where}: {intrin.name} takes {len(intrin.inputs)} regions of tensors and {len(intrin.scalar_params)} "
            f"numbers, not {len(regions)} and {len(scalars)}" + at(span)
        )
    return _Parts(intrin, tuple(regions), dict(zip(intrin.scalar_params, scalars)))


def _region(tensor: Tensor, indices: Sequence[Any], where: str, span: Span | None) -> tuple[n.Range, ...]:
    found: list[n.Range] = []
    for axis, size in enumerate(tensor.shape):
        index = indices[axis] if axis < len(indices) else slice(None)
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise IRError(f"{where}: a region of {tensor.name!r} has step {index.step}" + at(span))
            start = ops.const(0, size.dtype) if index.start is None else ops.as_expr(index.start)
            stop = size if index.stop is None else index.stop
            found.append(n.Range(start, ops.sub(stop, start)))
        else:
            point = ops.as_expr(index)
            found.append(n.Range(point, ops.const(1, point.dtype)))
    return tuple(found)


def _block(
    parts: _Parts, body: Stmt | None, reads: Sequence[n.BufferRegion], writes: Sequence[n.BufferRegion], name: str
) -> Stmt:
    """A block in which the intrinsic's buffers are the regions.
    Without `reads`, one that sets the outputs."""
    if body is None:
        raise IRError(f"compute {name!r}: {parts.intrin.name} has no statement for this call")
    buffers = parts.intrin.buffers if reads else parts.intrin.buffers[len(parts.intrin.inputs) :]
    values = dict(parts.values)
    swap: dict[n.Buffer, n.Buffer] = {}
    views: list[n.MatchBufferRegion] = []
    for buffer, source in zip(buffers, (*reads, *writes)):
        extents = [part.extent for part in source.region[len(source.region) - len(buffer.shape) :]]
        values.update((size, extent) for size, extent in zip(buffer.shape, extents) if isinstance(size, n.Var))
        view = fresh_view(buffer, source.buffer.scope)
        shape = tuple(substitute(size, values) for size in buffer.shape)
        swap[buffer] = replace(view, shape=shape)
        views.append(n.MatchBufferRegion(swap[buffer], source))
    own = {t: n.decl_buffer(t.shape, t.dtype, t.name, scope=t.scope) for t in parts.intrin.temporaries}
    inputs = {swap[buffer].data for buffer in buffers[: len(reads)]}
    filled = substitute(only_reading(over_buffers(renamed(body), swap | own), inputs), values)
    assert isinstance(filled, Stmt)
    held = tuple(own.values())
    block = n.Block((), tuple(reads), tuple(writes), name, filled, alloc_buffers=held, match_buffers=tuple(views))
    return n.BlockRealize((), _TRUE, block)


def _reduced(
    call: IntrinCall, parts: _Parts, reads: Sequence[n.BufferRegion], writes: Sequence[n.BufferRegion], name: str,
    span: Span | None,
) -> Stmt:  # fmt: skip
    """The outputs set to the unit, and loops over the axes of the reduction that add to them."""
    intrin = parts.intrin
    if intrin.reduce_init is None or intrin.reduce_update is None:
        raise IRError(f"compute {name!r}: {intrin.name} has no reduce_init and reduce_update" + at(span))
    init = _block(parts, intrin.reduce_init, (), writes, f"{name}_init")
    update = _block(parts, intrin.reduce_update, reads, writes, f"{name}_update")
    for axis in reversed(call.reduce_axes):
        assert axis.dom is not None
        update = n.For(axis.var, axis.dom.min, axis.dom.extent, n.ForKind.SERIAL, update)
    return n.SeqStmt((init, update))
