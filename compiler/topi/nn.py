"""Operators of neural networks."""

from __future__ import annotations

from compiler.errors import IRError
from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import max as te_max
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.te.where import at, caller_span
from compiler.tir import intrin, ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.conv import conv2d_nchw, pad
from compiler.topi.matrix import batch_matmul, dense

__all__ = ["batch_matmul", "conv2d_nchw", "dense", "pad", "relu", "softmax"]


def relu(x: Tensor) -> Tensor:
    """max(x, 0), elementwise."""
    result: Tensor = compute(x.shape, lambda *i: ops.maximum(x(*i), const(0, x.dtype)), name="T_relu", tag="elemwise")
    return result


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)), maximum and sum along `axis`.

    The maximum is subtracted first so that exp cannot overflow. Raises IRError when `axis` is out of range.
    """
    dim = axis + x.ndim if axis < 0 else axis
    if not 0 <= dim < x.ndim:
        raise IRError(f"softmax over axis {axis} of {x.ndim} dimensions" + at(caller_span()))
    rest = x.shape[:dim] + x.shape[dim + 1 :]

    def insert(indices: tuple[Var, ...], value: PrimExpr) -> tuple[PrimExpr, ...]:
        return (*indices[:dim], value, *indices[dim:])

    def drop(indices: tuple[Var, ...]) -> tuple[PrimExpr, ...]:
        return indices[:dim] + indices[dim + 1 :]

    k_max = reduce_axis((0, x.shape[dim]), name="k")
    k_sum = reduce_axis((0, x.shape[dim]), name="k")
    largest: Tensor = compute(rest, lambda *i: te_max(x(*insert(i, k_max.var)), axis=k_max), name="T_softmax_maxelem")
    powers: Tensor = compute(
        x.shape, lambda *i: intrin.exp(x(*i) - largest(*drop(i))), name="T_softmax_exp", tag="elemwise"
    )
    total: Tensor = compute(rest, lambda *i: te_sum(powers(*insert(i, k_sum.var)), axis=k_sum), name="T_softmax_expsum")
    result: Tensor = compute(
        x.shape, lambda *i: powers(*i) / total(*drop(i)), name="T_softmax_norm", tag="softmax_output"
    )
    return result
