"""Columns, or matrices, are chosen after the product with all of them."""

from __future__ import annotations

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call, PrimValue, ShapeExpr, TensorStructInfo, info_of
from compiler.relax.nodes.dims import int64, proven_equal
from compiler.relax.op.elementwise.binary import add
from compiler.relax.op.linear_algebra import matmul
from compiler.relax.op.movement.create import arange
from compiler.relax.op.movement.index import take
from compiler.relax.op.movement.manipulate import astype, permute_dims, reshape
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass
from compiler.tir.nodes import PrimExpr


@relax_pass("ReorderTakeAfterMatmul", opt_level=1)
def reorder_take_after_matmul(mod: IRModule, context: PassContext) -> IRModule:
    """Multiply with all columns, and then take the needed ones from the result.

    lv = R.take(weights, indices, axis=1)    →    lv = R.matmul(x, weights)
    gv = R.matmul(x, lv)                          gv = R.take(lv, indices, axis=1)

    A matrix for each example of a batch, `R.take(weights, indices, axis=0)` of weights (tables, k, n), is chosen after
    one product with (k, tables * n), too. Weights are then read once, not once for each example.
    """
    return rewrite_calls(mod, {"relax.matmul": _reordered})


def _reordered(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    x, weights = call.args
    chosen = rewriter.call_of(weights, "relax.take")
    if chosen is None or chosen.attrs["axis"] is None:
        return None
    table, indices = chosen.args
    left, right, several = shape_of(x), shape_of(table), shape_of(indices)
    if left is None or right is None or several is None or len(several) != 1 or len(left) < 2:
        return None
    axis = int(chosen.attrs["axis"]) % len(right)
    mode, out = chosen.attrs["mode"], call.attrs["out_dtype"]
    if axis == len(right) - 1 and len(right) == 2:
        return take(matmul(x, table, out), indices, axis=len(left) - 1, mode=mode)
    if axis == 0 and len(right) == 3 and len(left) == 3 and proven_equal(left[0], several[0]):
        return _per_example(call, chosen, left, right)
    return None


def _per_example(call: Call, chosen: Call, left: tuple[PrimExpr, ...], right: tuple[PrimExpr, ...]) -> RelaxExpr | None:
    (table, indices), x = chosen.args, call.args[0]
    batch, rows, _ = left
    tables, inner, columns = right
    info = info_of(indices)
    if not isinstance(info, TensorStructInfo) or chosen.attrs["mode"] != "fast":
        return None  # other modes change indices that are too large, which would lead into another example here
    flat = reshape(permute_dims(table, [1, 0, 2]), ShapeExpr((inner, tables * columns)))
    every = reshape(matmul(x, flat, call.attrs["out_dtype"]), ShapeExpr((batch, rows, tables, columns)))
    by_table = reshape(permute_dims(every, [0, 2, 1, 3]), ShapeExpr((batch * tables, rows, columns)))
    first = arange(PrimValue(int64(0)), PrimValue(batch * tables), PrimValue(tables), "int64")
    return take(by_table, add(first, astype(indices, "int64")), axis=0, mode="fast")
