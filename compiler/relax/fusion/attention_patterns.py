"""Recognise attention that is written out with three-dimensional products, and make it one operator.

`rewrite_call(*make_attention_rewrite_pattern(…), func)` applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.base import RelaxExpr
from compiler.relax.dpl.make import is_const, is_op, wildcard
from compiler.relax.dpl.pattern import DFPattern
from compiler.relax.nodes import Call, Constant, TensorStructInfo, info_of
from compiler.relax.nodes.dims import proven_equal
from compiler.relax.op.movement.manipulate import reshape
from compiler.relax.op.nn.attention import attention
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Matches = Mapping[DFPattern, RelaxExpr]
Rule = Callable[[RelaxExpr, dict[DFPattern, RelaxExpr]], RelaxExpr]
Dims = tuple[PrimExpr, ...]

LAYOUTS = ("BSNH", "BSH")


def make_attention_rewrite_pattern(
    qkv_layout: str, out_layout: str, with_bias: bool, with_cast: bool, with_kv_repeat: bool = False
) -> tuple[DFPattern, Rule]:
    """Return a pattern of softmax(query key^T * scale + bias) value, and its rule.

    The rule makes `R.nn.attention` of it. Layout "BSNH" has heads that are moved before lengths and joined with
    batches; "BSH" has one head. `with_cast` expects the conversions that half precision brings: of the scale, the
    scores and the shares. `with_kv_repeat` expects repeated heads of keys and values; the operator takes them without
    repetition. The rule returns its input where the operator would compute something else. Raises ArgumentError for
    other layouts.
    """
    for name, layout in (("qkv_layout", qkv_layout), ("out_layout", out_layout)):
        if layout not in LAYOUTS:
            raise ArgumentError(f"{name} is {layout!r}", hint="it is BSNH or BSH")
    query = _Side.of(qkv_layout, False, False)
    key = _Side.of(qkv_layout, True, with_kv_repeat)
    value = _Side.of(qkv_layout, False, with_kv_repeat)
    scale = is_const()
    scores: DFPattern = is_op("relax.matmul")(query.pattern, key.pattern)
    scores = is_op("relax.multiply")(scores, is_op("relax.astype")(scale) if with_cast else scale)
    bias = wildcard() if with_bias else None
    scores = scores if bias is None else is_op("relax.add")(scores, bias)
    softmax = is_op("relax.nn.softmax")(is_op("relax.astype")(scores) if with_cast else scores)
    shares = is_op("relax.astype")(softmax) if with_cast else softmax
    product = is_op("relax.matmul")(shares, value.pattern)
    out = _Out.of(out_layout, product)
    return out.pattern, _Rule(query, key, value, scale, bias, softmax, out)


@dataclass(frozen=True, eq=False)
class _Rule:
    """The rule that makes the operator of a match."""

    query: _Side
    key: _Side
    value: _Side
    scale: DFPattern
    bias: DFPattern | None
    softmax: DFPattern
    out: _Out

    def __call__(self, expr: RelaxExpr, matches: dict[DFPattern, RelaxExpr]) -> RelaxExpr:
        sides = [side.value(matches) for side in (self.query, self.key, self.value)]
        query, key, value = sides
        factor = matches[self.scale]
        if query is None or key is None or value is None or not isinstance(factor, Constant) or factor.array.size != 1:
            return expr
        if _attr(matches[self.softmax], "axis") not in (-1, 2):
            return expr
        bias = None
        if self.bias is not None:
            (batch, length, heads, _), (_, keys, _, _) = query[1], key[1]
            bias = _bias_of(matches[self.bias], batch, heads, length, keys)
            if bias is None:
                return expr
        made = attention(query[0], key[0], value[0], bias, float(factor.array))
        return self.out.value(made, matches) or expr


@dataclass(frozen=True, eq=False)
class _Side:
    """Queries, keys or values, as a product takes them."""

    pattern: DFPattern
    raw: DFPattern
    repeated: DFPattern | None
    front: DFPattern | None
    """Where heads stand in front of lengths; None for one head."""
    joined: DFPattern | None
    """Where heads are joined with batches."""
    turned: DFPattern | None

    @staticmethod
    def of(layout: str, transposed: bool, repeat: bool) -> _Side:
        raw = wildcard()
        repeated = is_op("relax.repeat")(raw) if repeat else None
        made: DFPattern = raw if repeated is None else repeated
        front = joined = None
        if layout == "BSNH":
            front = is_op("relax.permute_dims")(made)
            made = joined = is_op("relax.reshape")(front, wildcard())
        turned = is_op("relax.permute_dims")(made) if transposed else None
        return _Side(made if turned is None else turned, raw, repeated, front, joined, turned)

    def value(self, matches: Matches) -> tuple[RelaxExpr, Dims] | None:
        """The operator's argument and its shape, (batch, length, heads, width); None where they are not that."""
        raw = matches[self.raw]
        dims = _dims(raw)
        if dims is None or (self.turned is not None and not _permutes(matches[self.turned], (0, 2, 1))):
            return None
        if self.front is None or self.joined is None:
            if len(dims) != 3 or self.repeated is not None:
                return None
            own = (dims[0], dims[1], ops.const(1, "int64"), dims[2])
            return reshape(raw, own), own
        if len(dims) != 4 or not _permutes(matches[self.front], (0, 2, 1, 3)):
            return None
        if self.repeated is not None and _attr(matches[self.repeated], "axis") not in (2, -2):
            return None
        before, after = _dims(matches[self.front]), _dims(matches[self.joined])
        if before is None or after is None or len(after) != 3 or not _same(before[2:], after[1:]):
            return None
        return raw, dims


@dataclass(frozen=True, eq=False)
class _Out:
    """The last product of a match, and its parts."""

    pattern: DFPattern
    product: DFPattern
    apart: DFPattern | None
    """Where heads and batches are taken apart; None for one head."""

    @staticmethod
    def of(layout: str, product: DFPattern) -> _Out:
        if layout == "BSH":
            return _Out(product, product, None)
        apart = is_op("relax.reshape")(product, wildcard())
        return _Out(is_op("relax.permute_dims")(apart), product, apart)

    def value(self, made: RelaxExpr, matches: Matches) -> RelaxExpr | None:
        """Return the attention in the shape of the match; None where that is another."""
        dims = _dims(matches[self.product])
        if dims is None or len(dims) != 3:
            return None
        if self.apart is None:
            return reshape(made, dims)
        after = _dims(matches[self.apart])
        fits = after is not None and len(after) == 4 and _same(after[2:], dims[1:])
        return made if fits and _permutes(matches[self.pattern], (0, 2, 1, 3)) else None


def _bias_of(bias: RelaxExpr, batch: PrimExpr, heads: PrimExpr, length: PrimExpr, keys: PrimExpr) -> RelaxExpr | None:
    """A bias of joined batches and heads with four dimensions; None for one that does not broadcast so."""
    dims = _dims(bias)
    if dims is None or not 1 <= len(dims) <= 3:
        return None
    one = ops.const(1, "int64")
    first, rows, columns = (*[one] * (3 - len(dims)), *dims)
    if not proven_equal(columns, keys) or not (proven_equal(rows, one) or proven_equal(rows, length)):
        return None
    if proven_equal(first, one):
        return reshape(bias, (one, one, rows, columns))
    if proven_equal(first, batch * heads):
        return reshape(bias, (batch, heads, rows, columns))
    return None


def _dims(expr: RelaxExpr) -> Dims | None:
    info = info_of(expr)
    return info.dims if isinstance(info, TensorStructInfo) else None


def _attr(expr: RelaxExpr, name: str) -> Any:
    assert isinstance(expr, Call)
    return expr.attrs[name]


def _permutes(expr: RelaxExpr, axes: Sequence[int]) -> bool:
    found = _attr(expr, "axes")
    return found is not None and [axis % len(axes) for axis in found] == [*axes]


def _same(some: Dims, others: Dims) -> bool:
    return len(some) == len(others) and all(map(proven_equal, some, others))
