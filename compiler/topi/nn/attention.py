"""Scaled dot-product attention."""

from __future__ import annotations

import math

from compiler.te.broadcast import element
from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described, differ, need_floats, need_one_of, need_rank, refusal
from compiler.topi.nn.norm import softmax

CAUSAL = (None, "TopLeft", "BottomRight")


def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None, scale: float | None = None,
    causal_mask: str | None = None, window_size: int | None = None,
) -> Tensor:  # fmt: skip
    """softmax(query key^T * scale + bias) value, of (batch, length, heads, width) tensors.

    Fewer heads of key and value serve several of query each. `bias` broadcasts to (batch, heads, queries, keys);
    `scale` is 1 / sqrt(width) unless given. `causal_mask` lets a query see keys up to its own place, counted from the
    start ("TopLeft") or from the end ("BottomRight"). `window_size` lets it see so many of the last of these. Scores of
    float16 and bfloat16 are float32. Raises IRError when shapes do not fit.
    """
    op = "attention"
    need_one_of(op, "causal_mask", causal_mask, CAUSAL)
    need_floats(op, query, key, value)
    for tensor in (query, key, value):
        need_rank(op, tensor, 4)
    batch, queries, heads, width = query.shape
    keys, few = key.shape[1], key.shape[2]
    pairs = [(key.shape[0], batch), (value.shape[0], batch), (key.shape[3], width), (value.shape[1], keys)]
    many = ops.as_int(heads), ops.as_int(few)
    shared = many[0] is not None and many[1] is not None and (many[1] == 0 or many[0] % many[1] != 0)
    if any(differ(a, b) for a, b in [*pairs, (value.shape[2], few)]) or (shared and many != (0, 0)):
        raise refusal(op, f"shapes do not fit: {described(query, key, value)}")
    if window_size is not None and (causal_mask is None or window_size < 1):
        raise refusal(op, f"window_size {window_size!r} needs a causal_mask, and to be positive")
    same = many[0] is not None and many[0] == many[1]
    dtype = "float32" if query.dtype in ("float16", "bfloat16") else query.dtype

    def head_of(h: Var) -> PrimExpr:
        return h if same or heads is few else ops.floordiv(h, ops.floordiv(heads, few))

    k = reduce_axis((0, width), name="k")

    def score(b: Var, h: Var, i: Var, j: Var) -> PrimExpr:
        product = query(b, i, h, k).astype(dtype) * key(b, j, head_of(h), k).astype(dtype)
        result: PrimExpr = te_sum(product, axis=k)
        return result

    scores: Tensor = compute((batch, heads, queries, keys), score, name="T_attention_scores", tag="batch_matmul")
    factor: PrimExpr
    if scale is not None:
        factor = const(float(scale), dtype)
    elif (known := ops.as_int(width)) is not None:
        factor = const(1 / math.sqrt(known) if known else 1.0, dtype)
    else:
        factor = intrin.rsqrt(ops.cast(dtype, width))

    def weighed(b: Var, h: Var, i: Var, j: Var) -> PrimExpr:
        result = scores(b, h, i, j) * factor
        if bias is not None:
            result = result + element(bias, (b, h, i, j)).astype(dtype)
        if causal_mask is None:
            return result
        last = ops.add(i, ops.sub(keys, queries)) if causal_mask == "BottomRight" else i
        seen = ops.less_equal(j, last)
        if window_size is not None:
            seen = ops.logical_and(seen, ops.greater(j, ops.sub(last, window_size)))
        return intrin.select(seen, result, ops.min_value(dtype))

    shares = softmax(compute(scores.shape, weighed, name="T_attention_weighed", tag="broadcast"), -1)
    m = reduce_axis((0, keys), name="m")

    def mixed(b: Var, i: Var, h: Var, w: Var) -> PrimExpr:
        result: PrimExpr = te_sum(shares(b, h, i, m) * value(b, m, head_of(h), w).astype(dtype), axis=m)
        return result

    out: Tensor = compute((batch, queries, heads, value.shape[3]), mixed, name="T_attention", tag="batch_matmul")
    if dtype == query.dtype:
        return out
    result: Tensor = compute(
        out.shape, lambda *i: out(*i).astype(query.dtype), name="T_attention_narrow", tag="elemwise"
    )
    return result
