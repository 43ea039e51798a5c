"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import IRError
from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir.nodes import PrimExpr
from compiler.tir.ops import as_int


def matmul(
    a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False, out_dtype: str | None = None
) -> Tensor:
    """C[i, j] = sum over k of A[i, k] * B[k, j].

    `a` is (M, K), or (K, M) when `transp_a`; `b` is (K, N), or (N, K) when `transp_b`; the result is (M, N) of
    `out_dtype` (the inputs' unless given), as which it is summed. Raises IRError when the ranks are not 2 or the K's
    differ.
    """
    _check_rank("matmul", 2, a, b)
    m, k_a = _ordered(a.shape, transp_a)
    k_b, n = _ordered(b.shape, transp_b)
    _check_equal("matmul", "K", k_a, k_b, a, b)
    k = reduce_axis((0, k_a), name="k")

    def product(i: PrimExpr, j: PrimExpr) -> PrimExpr:
        left, right = a[k, i] if transp_a else a[i, k], b[j, k] if transp_b else b[k, j]
        return left * right if out_dtype is None else left.astype(out_dtype) * right.astype(out_dtype)

    result: Tensor = compute(
        (m, n),
        lambda i, j: te_sum(product(i, j), axis=k),
        name="T_matmul",
        tag="matmul",
    )
    return result


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None) -> Tensor:
    """Y[i, j] = sum over k of data[i, k] * weight[j, k], plus bias[j].

    `data` is (M, K), `weight` (N, K), `bias` (N,), the result (M, N) of `out_dtype` (`data`'s unless given).
    Raises IRError when the ranks or sizes do not fit.
    """
    _check_rank("dense", 2, data, weight)
    _check_equal("dense", "K", data.shape[1], weight.shape[1], data, weight)
    dtype = out_dtype if out_dtype is not None else data.dtype
    k = reduce_axis((0, data.shape[1]), name="k")
    product: Tensor = compute(
        (data.shape[0], weight.shape[0]),
        lambda i, j: te_sum(data[i, k].astype(dtype) * weight[j, k].astype(dtype), axis=k),
        name="T_dense",
        tag="dense",
    )
    if bias is None:
        return product
    _check_rank("dense", 1, bias)
    _check_equal("dense", "N", weight.shape[0], bias.shape[0], weight, bias)
    result: Tensor = compute(
        product.shape,
        lambda i, j: product[i, j] + bias[j].astype(dtype),
        name="T_add",
        tag="broadcast",
    )
    return result


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """One matrix product a batch entry: C[b, i, j] = sum over k of A[b, i, k] * B[b, j, k].

    `tensor_a` is (B, M, K), or (B, K, M) when `transpose_a`; `tensor_b` is (B, N, K), or (B, K, N) without
    `transpose_b`; the result is (B, M, N) of `out_dtype` (`tensor_a`'s unless given). Raises IRError when
    the ranks or sizes do not fit.
    """
    _check_rank("batch_matmul", 3, tensor_a, tensor_b)
    m, k_a = _ordered(tensor_a.shape[1:], transpose_a)
    k_b, n = _ordered(tensor_b.shape[1:], transpose_b)
    _check_equal("batch_matmul", "K", k_a, k_b, tensor_a, tensor_b)
    _check_equal("batch_matmul", "batch", tensor_a.shape[0], tensor_b.shape[0], tensor_a, tensor_b)
    dtype = out_dtype if out_dtype is not None else tensor_a.dtype
    k = reduce_axis((0, k_a), name="k")
    result: Tensor = compute(
        (tensor_a.shape[0], m, n),
        lambda b, i, j: te_sum(
            (tensor_a[b, k, i] if transpose_a else tensor_a[b, i, k]).astype(dtype)
            * (tensor_b[b, j, k] if transpose_b else tensor_b[b, k, j]).astype(dtype),
            axis=k,
        ),
        name="T_batch_matmul",
        tag="batch_matmul",
    )
    return result


def _ordered(shape: Sequence[PrimExpr], swap: bool) -> tuple[PrimExpr, PrimExpr]:
    return (shape[1], shape[0]) if swap else (shape[0], shape[1])


def _check_rank(op: str, rank: int, *tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.ndim != rank:
            raise IRError(
                f"{op} needs {rank} dimensions, tensor {tensor.name!r} has shape {shape_text(tensor.shape)}"
                + at(caller_span())
            )


def _check_equal(op: str, what: str, x: PrimExpr, y: PrimExpr, a: Tensor, b: Tensor) -> None:
    """Constant sizes must be equal; symbolic ones are taken to be."""
    left, right = as_int(x), as_int(y)
    if left is not None and right is not None and left != right:
        raise IRError(
            f"{op}: the {what} of {a.name!r} {shape_text(a.shape)} and {b.name!r} {shape_text(b.shape)} "
            f"differ: {left} and {right}" + at(caller_span())
        )
