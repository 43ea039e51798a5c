"""Attention of several heads, rotated places, caches of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from compiler.frontend.onnx.converters.matmul import product
from compiler.frontend.onnx.graph_builder import Dim, GraphBuilder
from compiler.frontend.onnx.kernels import clamped, elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import MICROSOFT, Result, converter
from compiler.frontend.onnx.run_time import i64
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.nodes.dims import simplified
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Select


def _heads(g: GraphBuilder, x: RelaxExpr, heads: int) -> RelaxExpr:
    """(batch, length, heads * size) as (batch, length, heads, size)."""
    batch, length, _ = g.shape(x)
    return g.emit(op.reshape(x, g.shape_expr([batch, length, heads, -1])))


def _swapped(g: GraphBuilder, x: RelaxExpr) -> RelaxExpr:
    """The second and third of four dimensions in each other's place."""
    return g.emit(op.permute_dims(x, [0, 2, 1, 3]))


def _attended(
    g: GraphBuilder, q: RelaxExpr, k: RelaxExpr, v: RelaxExpr, bias: RelaxExpr | None, scale: float,
    softcap: float = 0.0,
) -> RelaxExpr:  # fmt: skip
    """Attention of (batch, length, heads, size) tensors as (batch, length, heads * size)."""
    if softcap:
        made = _swapped(g, _capped(g, [_swapped(g, x) for x in (q, k, v)], bias, scale, softcap))
    else:
        made = g.emit(op.nn.attention(q, k, v, bias, scale))
    batch, length = g.shape(made)[:2]
    return g.emit(op.reshape(made, g.shape_expr([batch, length, -1])))


def _capped(
    g: GraphBuilder, parts: Sequence[RelaxExpr], bias: RelaxExpr | None, scale: float, softcap: float
) -> RelaxExpr:
    """Attention of (batch, heads, length, size) tensors whose scores are softly capped."""
    q, k, v = parts
    dtype = g.info(q).dtype
    scores = product(g, q, g.emit(op.permute_dims(k, [0, 1, 3, 2])))
    bent = g.emit(op.tanh(g.emit(op.multiply(scores, g.full(scale / softcap, dtype)))))
    scores = g.emit(op.multiply(bent, g.full(softcap, dtype)))
    if bias is not None:
        scores = g.emit(op.add(scores, bias))
    return product(g, g.emit(op.nn.softmax(scores, -1)), v)


def _visible(queries: Dim, keys: Dim, before: Dim, window: int, dtype: str) -> Tensor:
    """0 where a query sees a key, else -infinity: (1, 1, queries, keys).

    `before` keys precede the first query.

    A key after its query is not seen, nor one `window` or more before it (0: any).
    """

    def at(b: PrimExpr, h: PrimExpr, i: PrimExpr, j: PrimExpr) -> Any:
        place = i64(i) + i64(before)
        seen = ops.less_equal(i64(j), place)
        if window > 0:
            seen = ops.logical_and(seen, ops.greater(i64(j), place - window))
        return Select(seen, ops.const(0.0, dtype), ops.const(float("-inf"), dtype))

    return elements((1, 1, queries, keys), at, name="visible")


def _joined(g: GraphBuilder, *masks: RelaxExpr | None) -> RelaxExpr | None:
    """The sum of what is added to scores."""
    held = [mask for mask in masks if mask is not None]
    if not held:
        return None
    total = held[0]
    for mask in held[1:]:
        total = g.emit(op.add(total, mask))
    return total


def _padding(g: GraphBuilder, node: Node, mask: TensorValue, keys: Dim, dtype: str) -> RelaxExpr:
    """Return what a mask of keys adds to scores.
    The mask holds lengths (batch), or 1 for each key that is seen, in 2 to 4 dimensions."""
    batch, low = g.shape(mask)[0], node.float("mask_filter_value", -10000.0)
    shown = g.emit(op.astype(g.expr(mask), "int32"))
    if g.rank(mask) == 1:
        return g.te(_by_length, shown, batch, keys, low, dtype, name="mask")
    if g.rank(mask) == 2:
        shown = g.emit(op.reshape(shown, g.shape_expr([batch, 1, 1, g.shape(mask)[1]])))
    elif g.rank(mask) == 3:
        shown = g.emit(op.expand_dims(shown, [1]))
    hidden = g.emit(op.equal(shown, g.full(0, "int32")))
    return g.emit(op.where(hidden, g.full(low, dtype), g.full(0, dtype)))


def _by_length(lengths: Tensor, batch: Dim, keys: Dim, low: float, dtype: str) -> Tensor:
    def at(b: PrimExpr, h: PrimExpr, i: PrimExpr, j: PrimExpr) -> Any:
        seen = ops.less(i64(j), lengths(b).astype("int64"))
        return Select(seen, ops.const(0.0, dtype), ops.const(low, dtype))

    return elements((batch, 1, 1, keys), at, name="mask")


def _scale(g: GraphBuilder, node: Node, q: RelaxExpr) -> float:
    """The scale of scores: the given one, else 1 over the root of the heads' size."""
    size = ops.as_int(g.shape(q)[-1])
    if size is None:
        node.fail("the size of a head must be known")
    return node.float("scale", 0.0) or 1.0 / sqrt(size)


@converter("Attention", domain=MICROSOFT)
def attention(g: GraphBuilder, node: Node) -> Result:
    """Project an input to queries, keys and values, and take attention."""
    if node.int("do_rotary", 0) or node.int("past_present_share_buffer", 0):
        node.fail("rotated places, or a cache that is written in place")
    x, heads = node.value(0), int(node.required("num_heads"))
    whole = product(g, g.expr(x), g.expr(node.value(1)))
    if node.given(2):
        whole = g.emit(op.add(whole, g.expr(node.value(2))))
    width = ops.as_int(g.shape(whole)[-1]) or 0
    sizes: list[Any] = node.ints("qkv_hidden_sizes") or [width // 3] * 3
    parts = g.items(g.emit(op.split(whole, [sizes[0], sizes[0] + sizes[1]], 2)))
    q, k, v = (_heads(g, part, heads) for part in parts)
    before: Dim = 0
    found: list[Any] = []
    if node.given(4):  # (2, batch, heads, length, size)
        past = g.items(g.emit(op.split(g.expr(node.value(4)), 2, 0)))
        old = [_swapped(g, g.emit(op.squeeze(part, [0]))) for part in past]
        before = g.shape(old[0])[1]
        k, v = (g.emit(op.concat([a, b], 1)) for a, b in zip(old, (k, v)))
    if node.wanted(1):
        found = [g.emit(op.stack([_swapped(g, k), _swapped(g, v)], 0))]
    return [_masked(g, node, q, k, v, before, 3, 5), *found]


def _masked(
    g: GraphBuilder, node: Node, q: RelaxExpr, k: RelaxExpr, v: RelaxExpr, before: Dim, padding: int, bias: int
) -> RelaxExpr:
    """Attention with a node's masks: the inputs `padding` and `bias`, and its attribute unidirectional."""
    dtype, keys = g.info(q).dtype, g.shape(k)[1]
    masks = [_padding(g, node, node.value(padding), keys, dtype) if node.given(padding) else None]
    masks.append(g.expr(node.value(bias)) if node.given(bias) else None)
    if node.int("unidirectional", 0):
        masks.append(g.te(_visible, g.shape(q)[1], keys, before, 0, dtype, name="visible"))
    return _attended(g, q, k, v, _joined(g, *masks), _scale(g, node, q))


@converter("MultiHeadAttention", domain=MICROSOFT)
def multi_head(g: GraphBuilder, node: Node) -> Result:
    """Take attention of queries, keys and values, with a bias, masks and a cache."""
    heads, query = int(node.required("num_heads")), node.value(0)
    if node.given(8) or node.given(9) or node.wanted(3):
        node.fail("a cache that is written in place, or scores as a result")
    parts: list[Any] = []
    if not node.given(1):
        if g.rank(query) != 5:
            node.fail("queries without keys and values must be packed: (batch, length, heads, 3, size)")
        parts = [g.emit(op.squeeze(part, [3])) for part in g.items(g.emit(op.split(g.expr(query), 3, 3)))]
    elif not node.given(2) and g.rank(node.value(1)) == 5:
        pair = g.items(g.emit(op.split(g.expr(node.value(1)), 2, 3)))
        parts = [_heads(g, g.expr(query), heads), *[g.emit(op.squeeze(part, [3])) for part in pair]]
    else:
        biases: list[RelaxExpr | None] = [None] * 3
        values = [node.value(k) for k in range(3)]
        if node.given(3):
            widths = [ops.as_int(g.shape(v)[-1]) or 0 if g.rank(v) == 3 else 0 for v in values]
            cuts = [widths[0], widths[0] + (widths[1] or widths[0])]
            biases = list(g.items(g.emit(op.split(g.expr(node.value(3)), cuts, 0))))
        for value, bias in zip(values, biases):
            x = g.expr(value)
            if g.rank(x) == 4:  # (batch, heads, length, size)
                parts.append(_swapped(g, x))
                continue
            parts.append(_heads(g, x if bias is None else g.emit(op.add(x, bias)), heads))
    q, k, v = parts
    before: Dim = 0
    if node.given(6):
        old = [_swapped(g, g.expr(node.value(index))) for index in (6, 7)]
        before = g.shape(old[0])[1]
        k, v = (g.emit(op.concat([a, b], 1)) for a, b in zip(old, (k, v)))
    found: list[Any] = [_masked(g, node, q, k, v, before, 4, 5)]
    if node.wanted(1):
        found += [_swapped(g, k), _swapped(g, v)]
    return found


def rotated(
    x: Tensor, cos: Tensor, sin: Tensor, first: Dim, width: int, interleaved: bool, *places: Tensor
) -> Tensor:
    """Turn pairs of the first `width` numbers by the angles of their places.

    The array is (batch, length, heads, size). The position of a row is `first` plus its number, or what `places` says:
    one for all (1), or (batch, length).
    """
    half = width // 2

    def at(b: PrimExpr, s: PrimExpr, h: PrimExpr, d: PrimExpr) -> Any:
        place = i64(s) + i64(first)
        if places:
            own = places[0]
            place = own(b, s).astype("int64") if own.ndim == 2 else own(i64(0)).astype("int64") + i64(s)
        place = clamped(place, cos.shape[0])
        last = i64(d)
        if interleaved:
            pair = ops.floordiv(last, 2)
            low = ops.equal(ops.floormod(last, 2), 0)
            other = Select(low, last + 1, last - 1)
        else:
            low = ops.less(last, half)
            pair = Select(low, last, last - half)
            other = Select(low, last + half, last - half)
        inside = ops.less(last, width)
        pair, other = (Select(inside, value, i64(0)) for value in (pair, other))
        value, far = x(b, s, h, d), x(b, s, h, other)
        turn = far * sin(place, pair).astype(x.dtype)
        near = value * cos(place, pair).astype(x.dtype)
        return Select(inside, Select(low, near - turn, near + turn), value)

    return elements(x.shape, at, name="rotated")


def _rotary(
    g: GraphBuilder, node: Node, x: RelaxExpr, cos: TensorValue, sin: TensorValue, first: Dim, width: int,
    interleaved: bool, places: TensorValue | None,
) -> RelaxExpr:  # fmt: skip
    """Apply `rotated` with shapes that fit: angles of `width` numbers, and one position or one a row."""
    size, angles = ops.as_int(g.shape(x)[-1]), [ops.as_int(g.shape(value)[1]) for value in (cos, sin)]
    if not width or size is None or width > size or any(known is None or 2 * known < width for known in angles):
        node.fail(f"{width} of {size} numbers are turned by {angles} angles")
    sines = g.cast_shape(g.expr(sin), g.shape(cos), sin.dtype)
    more: list[RelaxExpr] = []
    if places is not None:
        shape = g.shape(x)[:2] if g.rank(places) == 2 else [i64(1)]
        more = [g.cast_shape(g.expr(places), shape, places.dtype)]
    return g.te(rotated, x, cos, sines, first, width, interleaved, *more, name="rotary")


@converter("RotaryEmbedding", domain=MICROSOFT)
def rotary(g: GraphBuilder, node: Node) -> Result:
    """Turn pairs of numbers by the angles of their places."""
    x, places, cos, sin = (node.value(k) for k in range(4))
    expr, width = g.expr(x), node.int("rotary_embedding_dim", 0)
    swapped = g.rank(x) == 4
    half = ops.as_int(g.shape(cos)[1])
    if swapped:
        held = _swapped(g, expr)
    else:
        heads = node.int("num_heads", 0)
        size = width or 2 * (half or 0)
        hidden = ops.as_int(g.shape(x)[2])
        if not heads and (not size or hidden is None):
            node.fail("the number of heads must be known")
        held = _heads(g, expr, heads or int(hidden or 0) // size)
    width = width or ops.as_int(g.shape(held)[-1]) or 0
    turned = bool(node.int("interleaved", 0))
    made = _rotary(g, node, held, cos, sin, 0, width, turned, places)
    return _swapped(g, made) if swapped else op.reshape(made, g.shape_expr(g.shape(x)))


@converter("GroupQueryAttention", domain=MICROSOFT)
def group_query(g: GraphBuilder, node: Node) -> Result:
    """Take causal attention in which groups of queries share keys and values, with a cache that grows."""
    heads, shared = int(node.required("num_heads")), int(node.required("kv_num_heads"))
    if any(node.given(k) for k in range(11, len(node.inputs))) or node.int("smooth_softmax", 0) or node.wanted(3):
        node.fail("a sink, quantised caches, norms of queries and scores as a result are not supported")
    parts: list[Any] = [g.expr(node.value(k)) for k in range(3) if node.given(1)]
    if not parts:
        width = ops.as_int(g.shape(node.value(0))[-1]) or 0
        size = width // (heads + 2 * shared)
        cuts = [heads * size, (heads + shared) * size]
        parts = list(g.items(g.emit(op.split(g.expr(node.value(0)), cuts, 2))))
    q, k, v = (_heads(g, part, count) for part, count in zip(parts, (heads, shared, shared)))
    queries = g.shape(q)[1]
    before: Dim = 0
    old: list[RelaxExpr] = []
    if node.given(3):
        old = [_swapped(g, g.expr(node.value(index))) for index in (3, 4)]
        before = g.shape(old[0])[1]
    if node.int("do_rotary", 0):
        cos, sin = node.value(7), node.value(8)
        width = 2 * (ops.as_int(g.shape(cos)[1]) or 0)
        turned = bool(node.int("rotary_interleaved", 0))
        q, k = (_rotary(g, node, x, cos, sin, before, width, turned, node.optional(9)) for x in (q, k))
    if old:
        k, v = (g.emit(op.concat([a, b], 1)) for a, b in zip(old, (k, v)))
    present = [_swapped(g, k), _swapped(g, v)]
    keys, window = g.shape(k)[1], node.int("local_window_size", -1)
    dtype = g.info(q).dtype
    first = simplified(i64(keys) - i64(queries))
    mask = g.te(_visible, queries, keys, first, max(window, 0), dtype, name="visible")
    bias = _joined(g, mask, g.expr(node.value(10)) if node.given(10) else None)
    if heads != shared:
        k, v = (g.emit(op.repeat(x, heads // shared, 2)) for x in (k, v))
    softcap = node.float("softcap", 0.0)
    return [_attended(g, q, k, v, bias, _scale(g, node, q), softcap), *present]
