"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import IRError
from compiler.te.broadcast import broadcast_shape
from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.nodes import IterVar, PrimExpr, Var
from compiler.tir.ops import as_int
from compiler.topi.checks import described, refusal
from compiler.topi.reduction import normal_axes


def matmul(
    a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False, out_dtype: str | None = None
) -> Tensor:
    """Return C[..., i, j] = sum over k of A[..., i, k] * B[..., k, j].

    The other dimensions broadcast as numpy's. `a` is (..., M, K), or (..., K, M) when `transp_a`; `b` is (..., K, N),
    or (..., N, K) when `transp_b`; one of a single dimension is a vector of K. The result is of `out_dtype` (the
    inputs' unless given), as which it is summed. Raises IRError when the K's differ or the other dimensions do not
    broadcast.
    """
    if min(a.ndim, b.ndim) < 1:
        raise refusal("matmul", f"a product needs dimensions: {described(a, b)}")
    m, k_a = _ordered(a.shape[-2:], transp_a) if a.ndim > 1 else (None, a.shape[0])
    k_b, n = _ordered(b.shape[-2:], transp_b) if b.ndim > 1 else (b.shape[0], None)
    _check_equal("matmul", "K", k_a, k_b, a, b)
    batch = broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    k = reduce_axis((0, k_a), name="k")

    def product(*point: Var) -> PrimExpr:
        outer, rest = point[: len(batch)], list(point[len(batch) :])
        row = rest.pop(0) if m is not None else None
        column = rest.pop(0) if n is not None else None
        left = _read(a, outer, row, k, transp_a)
        right = _read(b, outer, column, k, not transp_b)
        return left * right if out_dtype is None else left.astype(out_dtype) * right.astype(out_dtype)

    names = [f"b{d}" for d in range(len(batch))] + [name for name, size in (("i", m), ("j", n)) if size is not None]
    result: Tensor = compute(
        [*batch, *(size for size in (m, n) if size is not None)],
        lambda *point: te_sum(product(*point), axis=k),
        name="T_matmul",
        tag="matmul",
        varargs_names=names,
    )
    return result


def _read(tensor: Tensor, outer: Sequence[Var], kept: Var | None, k: IterVar, k_first: bool) -> PrimExpr:
    """Read an element of an operand: its batch aligned at the last batch dimension, its row or column, k."""
    if kept is None:
        return tensor(k)
    sizes = tensor.shape[:-2]
    aligned = outer[len(outer) - len(sizes) :]
    batch = [ops.const(0) if as_int(size) == 1 else i for i, size in zip(aligned, sizes)]
    return tensor(*batch, k, kept) if k_first else tensor(*batch, kept, k)


def tensordot(a: Tensor, b: Tensor, axes: int | Sequence[int] | Sequence[Sequence[int]] = 2) -> Tensor:
    """The sum of products over dimensions of both.
    With `axes` a number, these are the last of `a` with the first of `b`. Else they are those in axes[0] of `a` with
    those in axes[1] of `b`. Raises IRError when sizes differ."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise refusal("tensordot", f"axes {axes} of {described(a, b)}")
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        given = [[side] if isinstance(side, int) else list(side) for side in axes]
        if len(given) != 2 or len(given[0]) != len(given[1]):
            raise refusal("tensordot", f"axes {axes!r} are not as many of both tensors")
        for side, tensor in zip(given, (a, b)):
            normal_axes("tensordot", side, tensor.ndim)
        left, right = ([d % t.ndim for d in side] for side, t in zip(given, (a, b)))
    for x, y in zip(left, right):
        _check_equal("tensordot", "sizes", a.shape[x], b.shape[y], a, b)
    reduced = [reduce_axis((0, a.shape[d]), name=f"k{d}") for d in left]
    rows = [d for d in range(a.ndim) if d not in left]
    columns = [d for d in range(b.ndim) if d not in right]

    def value(*i: Var) -> PrimExpr:
        first = dict(zip(rows, i)) | {d: axis.var for d, axis in zip(left, reduced)}
        second = dict(zip(columns, i[len(rows) :])) | {d: axis.var for d, axis in zip(right, reduced)}
        term = a(*(first[d] for d in range(a.ndim))) * b(*(second[d] for d in range(b.ndim)))
        return te_sum(term, axis=reduced) if reduced else term

    shape = [*(a.shape[d] for d in rows), *(b.shape[d] for d in columns)]
    result: Tensor = compute(shape, value, name="T_tensordot", tag="matmul" if reduced else "injective")
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

    `tensor_a` is (B, M, K), or (B, K, M) when `transpose_a`. `tensor_b` is (B, N, K), or (B, K, N) without
    `transpose_b`; the result is (B, M, N) of `out_dtype` (`tensor_a`'s unless given). Raises IRError when
    the ranks or sizes do not fit.
    """
    _check_rank("batch_matmul", 3, tensor_a, tensor_b)
    m, k_a = _ordered(tensor_a.shape[1:], transpose_a)
    k_b, n = _ordered(tensor_b.shape[1:], transpose_b)
    _check_equal("batch_matmul", "K", k_a, k_b, tensor_a, tensor_b)
    (batch,) = broadcast_shape("batch_matmul", tensor_a.shape[:1], tensor_b.shape[:1])
    dtype = out_dtype if out_dtype is not None else tensor_a.dtype
    k = reduce_axis((0, k_a), name="k")
    result: Tensor = compute(
        (batch, m, n),
        lambda b, i, j: te_sum(
            _read(tensor_a, (b,), i, k, transpose_a).astype(dtype)
            * _read(tensor_b, (b,), j, k, not transpose_b).astype(dtype),
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
                + here()
            )


def _check_equal(op: str, what: str, x: PrimExpr, y: PrimExpr, a: Tensor, b: Tensor) -> None:
    """Constant sizes must be equal; symbolic ones are taken to be."""
    left, right = as_int(x), as_int(y)
    if left is not None and right is not None and left != right:
        raise IRError(
            f"{op}: the {what} of {a.name!r} {shape_text(a.shape)} and {b.name!r} {shape_text(b.shape)} "
            f"differ: {left} and {right}" + here()
        )
