"""Attention that is written out, as exported models have it, becomes one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call, Constant, TensorStructInfo, info_of
from compiler.relax.nodes.dims import simplified
from compiler.relax.op.elementwise.binary import add, divide, multiply
from compiler.relax.op.elementwise.unary import isnan
from compiler.relax.op.movement.dimensions import expand_dims, squeeze
from compiler.relax.op.movement.manipulate import permute_dims
from compiler.relax.op.nn.attention import attention
from compiler.relax.op.reduction.search import where
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_HIDES = -1e30
"""A score below this, added to any other, hides it: the sum is the same whatever the other is."""


@relax_pass("FuseAttention", opt_level=1)
def fuse_attention(mod: IRModule, context: PassContext) -> IRModule:
    """Replace softmax(query key^T * scale + mask) value, written as operators, by one `R.nn.attention`.

    lv = R.matmul(query, key)    # key is transposed    →    gv = R.nn.attention(query, key, value, mask, scale=0.125)
    lv1 = R.divide(lv, 8.0)
    lv2 = R.add(lv1, mask)
    lv3 = R.nn.softmax(lv2)
    gv = R.matmul(lv3, value)

    Nothing else may read a value between. Scores may be scaled by single numbers, and masks added after that. A scale
    that is no constant is applied to the queries. Scores that a condition replaces by a very low number are masked,
    too. Heads come before lengths in what is written out, and after them in the operator. Transpositions for that
    cancel those that brought heads to the front. Zeros in the place of NaN shares become zeros in the place of NaN
    results.
    """
    return rewrite_calls(mod, {"relax.matmul": _fused, "relax.permute_dims": _straight})


@dataclass(frozen=True, slots=True)
class _Scores:
    """An expression of scores: query times key (of the shape that `matmul` takes it in)."""

    query: RelaxExpr
    key: RelaxExpr
    dims: tuple[PrimExpr, ...]
    scale: float = 1.0
    factors: tuple[tuple[Callable[..., Call], RelaxExpr], ...] = ()
    """Numbers that queries are multiplied with or divided by, known when the model runs."""
    mask: RelaxExpr | None = None
    guarded: bool = False
    """Whether shares that are no numbers are zeros."""

    def attention(
        self, rewriter: CallRewriter, query: RelaxExpr, key: RelaxExpr, value: RelaxExpr, mask: RelaxExpr | None
    ) -> RelaxExpr:
        for scale, number in self.factors:
            query = scale(query, number)
        made = rewriter.builder_.emit(attention(query, key, value, mask, self.scale))
        info = info_of(made)
        assert isinstance(info, TensorStructInfo)
        return where(isnan(made), Constant(np.array(0.0).astype(info.dtype)), made) if self.guarded else made


def _fused(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    """The attention in the place of a product of shares with values."""
    shares, value = call.args
    unguarded = _unguarded(rewriter, shares)
    softmax = rewriter.call_of(shares if unguarded is None else unguarded, "relax.nn.softmax")
    if softmax is None or not _plain(call):
        return None
    if rewriter.uses(shares) != 1 or (unguarded is not None and rewriter.uses(unguarded) != 2):
        return None
    scores = _scores(rewriter, softmax.args[0])
    if scores is None or int(softmax.attrs["axis"]) not in (-1, len(scores.dims) - 1) or not _fit(scores, value):
        return None
    scores = replace(scores, guarded=unguarded is not None)
    mask = scores.mask
    if len(scores.dims) == 4:
        query, value = (_permuted(rewriter, item, (0, 2, 1, 3)) for item in (scores.query, value))
        key = _permuted(rewriter, scores.key, (0, 3, 1, 2))
        return permute_dims(scores.attention(rewriter, query, key, value, mask), [0, 2, 1, 3])
    query, values = (_permuted(rewriter, item, (1, 0, 2)) for item in (scores.query, value))
    if _is_permuted(query) or _is_permuted(values):  # heads are batches
        key = expand_dims(_permuted(rewriter, scores.key, (0, 2, 1)), [2])
        if mask is not None and len(shape_of(mask) or ()) == 3:
            mask = expand_dims(mask, [1])
        query, values = expand_dims(scores.query, [2]), expand_dims(value, [2])
        return squeeze(scores.attention(rewriter, query, key, values, mask), [2])
    key = expand_dims(_permuted(rewriter, scores.key, (2, 0, 1)), [0])
    made = scores.attention(rewriter, expand_dims(query, [0]), key, expand_dims(values, [0]), mask)
    return permute_dims(squeeze(made, [0]), [1, 0, 2])


def _unguarded(rewriter: CallRewriter, shares: RelaxExpr) -> RelaxExpr | None:
    """`x` where `shares` is where(isnan(x), 0, x), and nothing else reads that."""
    guard = _call(rewriter, shares, "relax.where")
    if guard is None or _number(rewriter, guard.args[1]) != 0.0:
        return None
    inner = guard.args[2]
    question = rewriter.call_of(guard.args[0], "relax.isnan")
    return inner if question is not None and question.args[0] is inner else None


def _straight(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    """Transpositions of what attention gave, and was transposed, as one."""
    inner = rewriter.call_of(call.args[0], "relax.permute_dims")
    if inner is None:
        return None
    source = inner.args[0]
    moved = rewriter.call_of(source, "relax.squeeze")
    origin = source if moved is None else moved.args[0]
    guard = rewriter.call_of(origin, "relax.where")
    origin = origin if guard is None else guard.args[2]
    if all(rewriter.call_of(origin, name) is None for name in ("relax.nn.attention", "relax.nn.attention_bias")):
        return None
    return _permuted(rewriter, call.args[0], _axes(call))


# ---------------------------------------------------------------------------------------- scores


def _scores(rewriter: CallRewriter, expr: RelaxExpr) -> _Scores | None:
    """`expr` as scores, if it is that and nothing else reads it."""
    call = rewriter.value_of(expr)
    if rewriter.uses(expr) != 1 or not isinstance(call, Call) or not isinstance(call.op, Op):
        return None
    rule = _RULES.get(call.op.name)
    found = None if rule is None else rule(rewriter, call)
    return found if found is not None and _same(shape_of(expr), found.dims) else None


def _product(rewriter: CallRewriter, call: Call) -> _Scores | None:
    query, key = call.args
    dims = shape_of(call)
    rank = len(dims or ())
    if dims is None or rank not in (3, 4) or not _plain(call):
        return None
    whole = [shape_of(item) for item in call.args]
    if any(shape is None or not _same(shape[:-2], dims[:-2]) for shape in whole):
        return None  # heads or batches that several share
    query, a = _unscaled(rewriter, query)
    key, b = _unscaled(rewriter, key)
    return _Scores(query, key, dims, a * b)


def _unscaled(rewriter: CallRewriter, expr: RelaxExpr) -> tuple[RelaxExpr, float]:
    """A value, and the constant that it is multiplied with."""
    for name in ("relax.multiply", "relax.divide"):
        call = rewriter.call_of(expr, name)
        factor = None if call is None else _number(rewriter, call.args[1])
        if call is not None and factor and _same(shape_of(call.args[0]), shape_of(expr) or ()):
            inner, rest = _unscaled(rewriter, call.args[0])
            return inner, rest * factor if name == "relax.multiply" else rest / factor
    return expr, 1.0


def _multiplied(rewriter: CallRewriter, call: Call) -> _Scores | None:
    a, b = call.args
    return _scaled(rewriter, a, b, multiply) or _scaled(rewriter, b, a, multiply)


def _divided(rewriter: CallRewriter, call: Call) -> _Scores | None:
    a, b = call.args
    return _scaled(rewriter, a, b, divide)


def _scaled(rewriter: CallRewriter, inner: RelaxExpr, number: RelaxExpr, by: Callable[..., Call]) -> _Scores | None:
    sizes = shape_of(number)
    if sizes is None or any(ops.as_int(size) != 1 for size in sizes):
        return None
    found = _scores(rewriter, inner)
    if found is None or found.mask is not None:
        return None
    factor = _number(rewriter, number)
    if not factor:
        return replace(found, factors=(*found.factors, (by, number)))
    return replace(found, scale=found.scale * factor if by is multiply else found.scale / factor)


def _masked(rewriter: CallRewriter, call: Call) -> _Scores | None:
    for inner, mask in (call.args, call.args[::-1]):
        found = _scores(rewriter, inner)
        if found is not None:
            return replace(found, mask=mask if found.mask is None else rewriter.builder_.emit(add(found.mask, mask)))
    return None


def _hidden(rewriter: CallRewriter, call: Call) -> _Scores | None:
    """Scores are seen where a condition holds, or where it does not."""
    condition, *sides = call.args
    for place, (inner, other) in enumerate((sides, sides[::-1])):
        low = _number(rewriter, other)
        found = None if low is None or low > _HIDES else _scores(rewriter, inner)
        info = info_of(inner)
        if low is None or found is None or not isinstance(info, TensorStructInfo) or info.dtype == "float16":
            continue
        seen, unseen = (Constant(np.array(value).astype(info.dtype)) for value in (0.0, low))
        parts = (seen if found.mask is None else found.mask, unseen)
        return replace(found, mask=rewriter.builder_.emit(where(condition, *(parts if place == 0 else parts[::-1]))))
    return None


_RULES = {
    "relax.matmul": _product,
    "relax.multiply": _multiplied,
    "relax.divide": _divided,
    "relax.add": _masked,
    "relax.where": _hidden,
}


# --------------------------------------------------------------------------------------- helpers


def _call(rewriter: CallRewriter, expr: RelaxExpr, name: str) -> Call | None:
    """The call of an operator that gave `expr`, which nothing else reads."""
    return rewriter.call_of(expr, name) if rewriter.uses(expr) == 1 else None


def _plain(product: Call) -> bool:
    """Whether a product is of the type of what is multiplied."""
    infos = [info_of(item) for item in (product, *product.args)]
    return len({info.dtype for info in infos if isinstance(info, TensorStructInfo)}) == 1


def _fit(scores: _Scores, value: RelaxExpr) -> bool:
    """Whether a value has the batches and the length of the scores."""
    dims = shape_of(value)
    wanted = (*scores.dims[:-2], scores.dims[-1])
    return dims is not None and _same(dims[:-1], wanted)


def _same(a: Sequence[PrimExpr] | None, b: Sequence[PrimExpr]) -> bool:
    if a is None or len(a) != len(b):
        return False
    rests = [simplified(x - y) for x, y in zip(a, b, strict=True)]
    return all(isinstance(rest, n.IntImm) and rest.value == 0 for rest in rests)


def _number(rewriter: CallRewriter, expr: RelaxExpr) -> float | None:
    """The only element of a constant."""
    held = rewriter.value_of(expr)
    return float(held.array.reshape(-1)[0]) if isinstance(held, Constant) and held.array.size == 1 else None


def _axes(call: Call) -> tuple[int, ...]:
    rank = len(shape_of(call) or ())
    given = call.attrs["axes"]
    return tuple([int(axis) % rank for axis in given]) if given is not None else tuple(reversed(range(rank)))


def _permuted(rewriter: CallRewriter, expr: RelaxExpr, axes: Sequence[int]) -> RelaxExpr:
    """`expr` transposed; it may be transposed itself."""
    while (found := _transposed(rewriter, expr)) is not None:
        expr, before = found
        axes = [before[axis] for axis in axes]
    return expr if list(axes) == list(range(len(axes))) else permute_dims(expr, list(axes))


def _transposed(rewriter: CallRewriter, expr: RelaxExpr) -> tuple[RelaxExpr, tuple[int, ...]] | None:
    """Return the value of which `expr` is the transposition, and its kind.
    It is direct, or of matrices in one batch that is split again."""
    inner = rewriter.call_of(expr, "relax.permute_dims")
    if inner is not None:
        return inner.args[0], _axes(inner)
    whole = rewriter.call_of(expr, "relax.reshape")
    turned = None if whole is None else rewriter.call_of(whole.args[0], "relax.permute_dims")
    joined = None if turned is None else rewriter.call_of(turned.args[0], "relax.reshape")
    dims = shape_of(expr)
    if turned is None or joined is None or dims is None or len(dims) != 4 or _axes(turned) != (0, 2, 1):
        return None
    source = joined.args[0]
    same = _same(shape_of(source), (*dims[:2], dims[3], dims[2])) and _same((shape_of(turned) or ())[1:], dims[2:])
    return (source, (0, 1, 3, 2)) if same else None


def _is_permuted(expr: RelaxExpr) -> bool:
    return isinstance(expr, Call)
