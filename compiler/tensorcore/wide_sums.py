"""Sum products of narrow floats as float32 where nobody scheduled them for tensor cores."""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.ir.visit import transform, walk
from compiler.schedule.core.schedule import Schedule
from compiler.tensorcore.warp_match import warp_product
from compiler.tir import nodes as n
from compiler.tir import ops


def summed_wide(func: n.PrimFunc) -> n.PrimFunc:
    """Return `func` with the sums of a product of narrow floats in float32, rounded once.

    Other functions stay. Tensor cores sum this way, and long sums in float16 would be less exact than the references
    that they are compared with.
    """
    product = warp_product(func)
    if product is None or product.left.bytes != 2:
        return func
    block = next(node for node in walk(func.body) if isinstance(node, n.Block) and _sums(node))
    output = block.writes[0].buffer
    if output.dtype == "float32":
        return func
    sch = Schedule(func)
    if output in func.buffer_map.values():
        sch.cache_write(block.name_hint, 0, "global")
    sch.unsafe_set_dtype(block.name_hint, 0, "float32")
    body = transform(sch.func.body, post=_without_rounding)
    assert isinstance(body, n.Stmt)
    return sch.func.with_body(body)


def _sums(block: n.Block) -> bool:
    return any(iv.iter_type is n.IterType.COMM_REDUCE for iv in block.iter_vars)


def _without_rounding(node: Node) -> Node | None:
    """A step of the sum in float32: what it loads, its product and what it stores are converted."""
    match node:
        case n.BufferStore(value=n.Cast(dtype=dtype, value=n.Add(a=n.Cast(value=before), b=n.Mul(a=x, b=y)))):
            total = ops.add(before, ops.mul(ops.cast(dtype, x), ops.cast(dtype, y)))
            return n.BufferStore(node.buffer, total, node.indices)
    return None
