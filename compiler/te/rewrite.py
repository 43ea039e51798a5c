"""Rewriting operations: pure functions that make new operations of old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.ir.base import Node
from compiler.ir.visit import transform
from compiler.te.extern import ExternOp
from compiler.te.scan import ScanOp
from compiler.te.tensor import ComputeOp, Operation, Tensor
from compiler.tir.nodes import IterType, IterVar, PrimExpr, ProducerLoad, Range, Var
from compiler.tir.visit import substitute


def replace_reads(op: Operation, mapping: Mapping[Tensor, Tensor]) -> Operation:
    """Make `op` read `mapping[t]` wherever it read t; return `op` itself if it reads none of them."""
    if not any(t in mapping for t in op.input_tensors):
        return op
    if isinstance(op, ExternOp):
        return op.reading(tuple(mapping.get(t, t) for t in op.inputs))
    if isinstance(op, ScanOp):
        return op.reading(mapping)
    assert isinstance(op, ComputeOp)

    def swap(node: Node) -> Node | None:
        if isinstance(node, ProducerLoad) and node.producer in mapping:
            return ProducerLoad(mapping[node.producer], node.indices, node.span)
        return None

    return with_body(op, [_transform(expr, swap) for expr in op.body])


def with_body(op: ComputeOp, body: Sequence[PrimExpr]) -> ComputeOp:
    """Return `op` with the same axes and another body.
    Outputs that share a reduction keep sharing its axes."""
    return ComputeOp(op.name, op.tag, op.attrs, op.span, op.axes, tuple(body))


def _transform(expr: PrimExpr, post: object) -> PrimExpr:
    result = transform(expr, post=post)  # type: ignore[arg-type]
    assert isinstance(result, PrimExpr)
    return result


def identity_copy(tensor: Tensor, name: str) -> ComputeOp:
    """An operation that copies `tensor` element for element."""
    axes = tuple(
        IterVar(Range.from_extent(d, d.dtype), Var(f"ax{i}", d.dtype), IterType.DATA_PAR)
        for i, d in enumerate(tensor.shape)
    )
    return ComputeOp(name, axes=axes, body=(tensor(*(axis.var for axis in axes)),))


def through_cache(op: ComputeOp, name: str) -> tuple[ComputeOp, ComputeOp]:
    """Return (cache, copy).
    `cache` computes what `op` did, over new data axes named `i.c` and the same reduction axes. `copy` has `op`'s name
    and data axes and reads the cache."""
    axes = tuple(IterVar(axis.dom, Var(f"{axis.var.name}.c", axis.dtype), axis.iter_type) for axis in op.axes)
    renamed = {old.var: new.var for old, new in zip(op.axes, axes)}
    body = tuple(substitute(expr, renamed) for expr in op.body)
    cache = ComputeOp(name, op.tag, op.attrs, op.span, axes, body)
    point = tuple(axis.var for axis in op.axes)
    copy = ComputeOp(op.name, "", op.attrs, op.span, op.axes, tuple(cache.output(i)(*point) for i in range(len(body))))
    return cache, copy
