"""Functions as nobody scheduled them: what candidates are compared with, and what is built where nothing is known."""

from __future__ import annotations

from compiler.artifact import Artifact
from compiler.lower.warp_products import product_of
from compiler.schedule.default_gpu import default_gpu_schedule
from compiler.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.prim_func import create_prim_func
from compiler.te.reduction import sum as te_sum
from compiler.tir.nodes import PrimFunc


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
    found = product_of(func)
    if found is None:
        return func
    (rows, columns, depth), transposed, buffers = found
    if buffers[2].dtype == "float32" or [func.buffer_map[p] for p in func.params] != list(buffers):
        return func
    dtype = buffers[0].dtype
    a = placeholder((rows, depth), dtype, name="a")
    b = placeholder((columns, depth) if transposed else (depth, columns), dtype, name="b")
    k = reduce_axis((0, depth), name="k")
    total = compute(
        (rows, columns),
        lambda i, j: te_sum(a[i, k].astype("float32") * (b[j, k] if transposed else b[k, j]).astype("float32"), axis=k),
        name="total",
    )
    return create_prim_func([a, b, compute((rows, columns), lambda i, j: total[i, j].astype(dtype), name="c")])
