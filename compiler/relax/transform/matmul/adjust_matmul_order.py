"""Products of three matrices are computed in the order that takes fewer operations."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call
from compiler.relax.nodes.dims import int64, variables
from compiler.relax.op.linear_algebra import matmul
from compiler.relax.op.movement.manipulate import permute_dims
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_LARGE = 1 << 31


@relax_pass("AdjustMatmulOrder", opt_level=1)
def adjust_matmul_order(mod: IRModule, context: PassContext) -> IRModule:
    """Multiply x * (A * B) as (x * A) * B, or the other way round, if that takes fewer operations.

    lv = R.matmul(A, B)     # (64, 2) * (2, 64)    →    lv = R.matmul(x, A)
    gv = R.matmul(x, lv)    # (1, 64) * (64, 64)        gv = R.matmul(lv, B)

    Two weights (parameters behind the first "num_input") are multiplied with each other, because that happens before
    the model runs. The inner product may be transposed.
    """
    return rewrite_calls(mod, {"relax.matmul": _ordered})


def _ordered(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    x, y = call.args
    if call.attrs["out_dtype"]:
        return None
    right = _factors(rewriter, y)
    if right is not None:
        return _chosen(rewriter, (x, *right), now_first=False)
    left = _factors(rewriter, x)
    return None if left is None else _chosen(rewriter, (*left, y), now_first=True)


def _factors(rewriter: CallRewriter, expr: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr] | None:
    """The two values whose product, perhaps transposed, `expr` is."""
    product = rewriter.call_of(expr, "relax.matmul")
    if product is not None:
        return None if product.attrs["out_dtype"] else (product.args[0], product.args[1])
    transposed = rewriter.call_of(expr, "relax.permute_dims")
    if transposed is None or not _swaps(transposed):
        return None
    inner = rewriter.call_of(transposed.args[0], "relax.matmul")
    if inner is None or inner.attrs["out_dtype"]:
        return None
    return permute_dims(inner.args[1]), permute_dims(inner.args[0])


def _swaps(call: Call) -> bool:
    shape = shape_of(call.args[0])
    axes = call.attrs["axes"]
    return shape is not None and len(shape) == 2 and (axes is None or [int(axis) % 2 for axis in axes] == [1, 0])


def _chosen(rewriter: CallRewriter, factors: Sequence[RelaxExpr], now_first: bool) -> RelaxExpr | None:
    """(a * b) * c or a * (b * c), if that is better than the present form; b and c are matrices."""
    normal = [rewriter.builder_.normalize(item) for item in factors]
    shapes = [shape_of(item) for item in normal]
    a, b, c = shapes
    if a is None or b is None or c is None or len(a) < 2 or len(b) != 2 or len(c) != 2:
        return None
    early = [_is_early(rewriter, item) for item in factors]
    if early[0] != early[2] and early[1]:
        first = early[0]
    else:
        rows: PrimExpr = int64(1)
        for size in a[:-1]:
            rows = rows * size
        with_first = rows * b[0] * b[1] + rows * b[1] * c[1]
        with_last = b[0] * b[1] * c[1] + rows * b[0] * c[1]
        now, other = (with_first, with_last) if now_first else (with_last, with_first)
        if not _is_less(other, now):
            return None
        first = not now_first
    if first == now_first:
        return None
    x, y, z = normal
    return matmul(matmul(x, y), z) if first else matmul(x, matmul(y, z))


def _is_early(rewriter: CallRewriter, expr: RelaxExpr) -> bool:
    return rewriter.is_early(expr.args[0] if isinstance(expr, Call) else expr)


def _is_less(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether `a` is less than `b` for all positive values of their variables."""
    analyzer = Analyzer()
    for var in dict.fromkeys([*variables(a), *variables(b)]):
        analyzer.bind(var, n.Range(int64(1), int64(_LARGE)))
    return analyzer.can_prove(a < b)
