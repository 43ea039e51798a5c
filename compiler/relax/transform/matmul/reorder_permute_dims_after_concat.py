"""Transposed matrices are put together before they are transposed."""

from __future__ import annotations

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call, Tuple
from compiler.relax.op.movement.joining import concat
from compiler.relax.op.movement.manipulate import permute_dims
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass


@relax_pass("ReorderPermuteDimsAfterConcat", opt_level=1)
def reorder_permute_dims_after_concat(mod: IRModule, context: PassContext) -> IRModule:
    """Concatenate tensors before their dimensions are permuted, where all are permuted alike.

    lv = R.permute_dims(A)              →    lv = R.concat((A, B), axis=0)
    lv1 = R.permute_dims(B)                  gv = R.permute_dims(lv)
    gv = R.concat((lv, lv1), axis=1)

    So `matmul(x, permute_dims(weight))` can be seen again after `CombineParallelMatmul`.
    """
    return rewrite_calls(mod, {"relax.concat": _reordered})


def _reordered(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    (parts,) = call.args
    whole = rewriter.value_of(parts)
    if not isinstance(whole, Tuple) or len(whole.fields) < 2:
        return None
    inner = [rewriter.call_of(item, "relax.permute_dims") for item in whole.fields]
    orders = [_order(item) for item in inner]
    first = orders[0]
    axis = call.attrs["axis"]
    if first is None or axis is None or any(order != first for order in orders):
        return None
    sources = [item.args[0] for item in inner if item is not None]
    return permute_dims(concat(sources, axis=first[int(axis) % len(first)]), first)


def _order(call: Call | None) -> list[int] | None:
    shape = None if call is None else shape_of(call.args[0])
    if call is None or shape is None:
        return None
    axes = call.attrs["axes"]
    return list(range(len(shape)))[::-1] if axes is None else [int(axis) % len(shape) for axis in axes]
