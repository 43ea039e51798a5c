"""The gradient of attention, made of products and softmax."""

from __future__ import annotations

import math
from typing import Any

from compiler.dtype import parse_dtype
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.tir import ops


def attention(use: Backward) -> Gradients:
    q, k, v = use.call.args[:3]
    dtype = use.info(q).dtype
    wide = "float32" if parse_dtype(dtype).bits == 16 else dtype
    heads, few = (ops.as_int(use.dims(value)[2]) for value in (q, k))
    if heads is None or few is None:
        use.fail("the numbers of heads must be constant")
    scale = use.attrs["scale"]
    if scale is None:
        width = ops.as_int(use.dims(q)[3])
        if width is None:
            use.fail("the width must be constant, or scale given")
        scale = 1 / math.sqrt(max(width, 1))

    def first(value: Any) -> Any:
        """Put heads before lengths."""
        return use.permute_dims(use.astype(value, wide) if wide != dtype else value, [0, 2, 1, 3])

    def repeated(value: Any) -> Any:
        """Repeat heads of keys or values for each head of queries."""
        return use.repeat(value, heads // few, 1) if few and heads != few else value

    def back(value: Any, like: Any) -> Any:
        """Put lengths before heads, and add up the heads that one head served."""
        if few and ops.as_int(use.dims(like)[2]) != heads:
            b, _, length, width = use.dims(value)
            parts = use.reshape(value, [b, int64(few), int64(heads // few), length, width])
            value = use.sum(parts, 2)
        turned = use.permute_dims(value, [0, 2, 1, 3])
        return use.astype(turned, dtype) if wide != dtype else turned

    query, key, value, grad = first(q), repeated(first(k)), repeated(first(v)), first(use.grad)
    scores = use.multiply(use.matmul(query, use.permute_dims(key, [0, 1, 3, 2])), scale)
    bias = use.call.args[3] if len(use.call.args) > 3 else None
    if bias is not None:
        scores = use.add(scores, use.astype(bias, wide) if use.info(bias).dtype != wide else bias)
    shares = use.op("nn.softmax", _masked(use, scores))
    toward = use.matmul(grad, use.permute_dims(value, [0, 1, 3, 2]))
    weighed = use.multiply(toward, shares)
    inner = use.subtract(weighed, use.multiply(shares, use.sum(weighed, -1, True)))
    turned = use.permute_dims(inner, [0, 1, 3, 2])
    found = [
        back(use.multiply(use.matmul(inner, key), scale), q),
        back(use.multiply(use.matmul(turned, query), scale), k),
        back(use.matmul(use.permute_dims(shares, [0, 1, 3, 2]), grad), v),
    ]
    if bias is not None:
        fitted = use.fitted_to(inner, bias)
        found.append(use.astype(fitted, use.info(bias).dtype) if use.info(bias).dtype != wide else fitted)
    return tuple(found)


def _masked(use: Backward, scores: Any) -> Any:
    """Scores of keys that a query does not see are the least number."""
    mask, window = use.attrs["causal_mask"], use.attrs["window_size"]
    if mask is None:
        return scores
    queries, keys = use.dims(scores)[2:]
    last = keys - queries if mask == "BottomRight" else int64(0)
    dtype = use.info(scores).dtype
    seen = use.tril(use.ones([queries, keys], dtype), last)
    if window is not None:
        seen = use.triu(seen, last - (window - 1))
    least = use.multiply(use.ones_like(scores), -1e30 if dtype in ("float32", "float64") else -6e4)
    return use.where(use.greater(seen, use.zeros_like(seen)), scores, least)
