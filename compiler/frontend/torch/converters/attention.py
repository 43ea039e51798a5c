"""Attention, kept whole."""

from __future__ import annotations

import math
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.tir import ops

_HEADS_INSIDE = (0, 2, 1, 3)
"""(batch, heads, length, width) to (batch, length, heads, width), and back."""


def _bias(c: Conversion, mask: Any, dtype: str) -> tuple[Any, Any]:
    """Return what is added to the scores.
    For masks of truth values, return also the rows that see any key."""
    mask = c.reshaped(mask, [*([1] * (4 - c.ndim(mask))), *c.shape(mask)])
    if c.dtype(mask) != "bool":
        return c.cast(mask, dtype), None
    low = -30000.0 if dtype == "float16" else -1e30
    bias = c.emit(op.where(mask, c.tensor(0.0, dtype), c.tensor(low, dtype)))
    return bias, c.emit(op.max(c.cast(mask, dtype), -1, True))


def attention(
    c: Conversion, query: Any, key: Any, value: Any, mask: Any, dropout: Any, causal: Any, scale: Any
) -> Any:
    """Attention of (..., heads, length, width) tensors, by the operator that has heads inside of lengths.

    A row that a mask hides from all keys is 0, as torch has it.
    """
    if dropout:
        c.refuse("attention with dropout is random; export the model after model.eval()")
    dtype, shape = c.dtype(query), c.shape(query)
    if c.ndim(query) != 4:
        query, key, value = (_four(c, x) for x in (query, key, value))
        mask = mask if mask is None or c.ndim(mask) <= 4 else _four(c, mask)
    q, k, v = (c.emit(op.permute_dims(x, _HEADS_INSIDE)) for x in (query, key, value))
    bias, seen = (None, None) if mask is None else _bias(c, mask, dtype)
    width = ops.as_int(shape[-1])
    if scale is None and width is not None:
        scale = 1.0 / math.sqrt(width)
    made = op.nn.attention(q, k, v, bias, None if scale is None else float(scale), "TopLeft" if causal else None)
    made = c.emit(op.permute_dims(made, _HEADS_INSIDE))
    if seen is not None:
        made = c.emit(op.multiply(made, seen))
    return made if len(shape) == 4 else c.reshaped(made, [*shape[:-1], c.shape(made)[-1]])


def _four(c: Conversion, x: Any) -> Any:
    """A tensor of four dimensions: the batches of more are one."""
    shape = c.shape(x)
    if len(shape) < 4:
        return c.reshaped(x, [*([1] * (4 - len(shape))), *shape])
    batch: Any = shape[0]
    for size in shape[1:-3]:
        batch = ops.mul(batch, size)
    return c.reshaped(x, [batch, *shape[-3:]])


@converts("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    c: Conversion, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: Any, is_causal: Any, scale: Any
) -> Any:
    return attention(c, query, key, value, attn_mask, dropout_p, is_causal, scale)


@converts("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention_for_cpu(
    c: Conversion, query: Any, key: Any, value: Any, dropout_p: Any, is_causal: Any, attn_mask: Any, scale: Any
) -> Any:
    if _is_used(c, 1):
        c.refuse("the logarithms of attention's sums are used")
    return attention(c, query, key, value, attn_mask, dropout_p, is_causal, scale), None


@converts("aten._scaled_dot_product_attention_math.default")
def math_attention(
    c: Conversion, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: Any, is_causal: Any, scale: Any
) -> Any:
    if _is_used(c, 1):
        c.refuse("attention's weights are used")
    return attention(c, query, key, value, attn_mask, dropout_p, is_causal, scale), None


def _is_used(c: Conversion, index: int) -> bool:
    return any(user.args[1] == index and user.users for user in c.node.users if user.op == "call_function")
