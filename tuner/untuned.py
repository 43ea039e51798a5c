"""Functions as nobody scheduled them: what candidates are compared with, and what is built where nothing is known."""

from __future__ import annotations

from compiler.artifact import Artifact
from compiler.ir.base import Node
from compiler.ir.visit import transform
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.default_gpu import default_gpu_schedule
from compiler.target.target import Target
from compiler.tensorcore.warp_match import warp_product
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import blocks_of


def runnable(func: PrimFunc, target: Target) -> PrimFunc:
    """`func` so that it can be built for `target`: on a GPU a thread for each result, on a CPU as it is.

    A product of narrow floats is summed as float32, as tensor cores do: long sums in float16 would be further from the
    truth than what they are compared with.
    """
    return default_gpu_schedule(_summed_wide(func)) if target.device_type == "cuda" else func


def device_type(artifact: Artifact) -> str:
    """The kind of device that runs an artifact."""
    return Target(artifact.target).device_type


def _summed_wide(func: PrimFunc) -> PrimFunc:
    """`func` with the sums of a product of narrow floats in float32, rounded once."""
    product = warp_product(func)
    if product is None or product.left.bytes != 2:
        return func
    block = next(info for info in blocks_of(func) if info.reduced)
    if block.output.buffer.dtype == "float32":
        return func
    sch = Schedule(func)
    if block.output.buffer in func.buffer_map.values():
        sch.cache_write(block.name, 0, "global")
    sch.unsafe_set_dtype(block.name, 0, "float32")
    body = transform(sch.func.body, post=_without_rounding)
    assert isinstance(body, n.Stmt)
    return sch.func.with_body(body)


def _without_rounding(node: Node) -> Node | None:
    """A step of the sum that rounds what it loads, its product and what it stores, in float32 throughout."""
    match node:
        case n.BufferStore(value=n.Cast(dtype=dtype, value=n.Add(a=n.Cast(value=before), b=n.Mul(a=x, b=y)))):
            total = ops.add(before, ops.mul(ops.cast(dtype, x), ops.cast(dtype, y)))
            return n.BufferStore(node.buffer, total, node.indices)
    return None
