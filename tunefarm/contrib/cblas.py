"""Products of matrices that numpy's library computes when the kernel runs."""

from __future__ import annotations

import numpy as np

from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.registry import register_func
from tunefarm import te, tir

__all__ = ["batch_matmul", "matmul"]


def matmul(lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False) -> te.Tensor:
    """The product of two matrices, either one transposed first."""
    rows, columns = lhs.shape[1 if transa else 0], rhs.shape[0 if transb else 1]
    return _extern("matmul", (rows, columns), lhs, rhs, transa, transb)


def batch_matmul(
    lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, iterative: bool = False
) -> te.Tensor:
    """The products of matrices along the first axis.
    `iterative` is ignored; accepted for compatibility with TVM."""
    rows, columns = lhs.shape[2 if transa else 1], rhs.shape[1 if transb else 2]
    return _extern("batch_matmul", (lhs.shape[0], rows, columns), lhs, rhs, transa, transb)


def _extern(name: str, shape: tuple[object, ...], lhs: te.Tensor, rhs: te.Tensor, *flags: bool) -> te.Tensor:
    call = f"tvm.contrib.cblas.{name}"
    numbers = [int(flag) for flag in flags]
    out: te.Tensor = te.extern(
        shape, [lhs, rhs], lambda ins, outs: tir.call_packed(call, ins[0], ins[1], outs[0], *numbers), name="C"
    )
    return out


def _product(lhs: NDArray, rhs: NDArray, out: NDArray, transa: int, transb: int) -> None:
    left, right = (
        np.swapaxes(given.numpy(), -1, -2) if flipped else given.numpy()
        for given, flipped in ((lhs, transa), (rhs, transb))
    )
    out.copyfrom(np.matmul(left, right))


for _name in ("matmul", "batch_matmul"):
    register_func(f"tvm.contrib.cblas.{_name}", _product, override=True)
