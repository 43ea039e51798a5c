"""Moves of elements that follow each other become one, or none."""

from __future__ import annotations

from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.arith.index_map import IndexMap
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call
from compiler.relax.op.movement.layout_transform import layout_transform
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


@relax_pass("OptimizeLayoutTransform", opt_level=1)
def optimize_layout_transform(mod: IRModule, context: PassContext) -> IRModule:
    """Move elements once where they were moved twice, and not at all where they come back to their place.

    lv = R.layout_transform(x, lambda i, j: (i // 4, j, i % 4))      →    gv = R.exp(x)
    lv1 = R.layout_transform(lv, lambda i, j, k: (i * 4 + k, j))
    gv = R.exp(lv1)

    Moves that make room for padding stay: what is there may matter to who asked for it.
    """
    return rewrite_calls(mod, {"relax.layout_transform": _joined})


def _joined(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    before = rewriter.call_of(call.args[0], "relax.layout_transform")
    if before is None:
        return None
    source = before.args[0]
    first, second = before.attrs["index_map"], call.attrs["index_map"]
    shape = shape_of(source)
    between = shape_of(call.args[0])
    if shape is None or between is None or _pads(first, shape) or _pads(second, between):
        return None
    analyzer = Analyzer()
    for var, size in zip(first.initial_indices, shape):
        analyzer.bind(var, n.Range(ops.const(0, var.dtype), size))
    places = second.map_indices(first.final_indices, analyzer)
    if len(places) == len(shape) and all(map(analyzer.can_prove_equal, places, first.initial_indices)):
        return source
    made: Any = layout_transform(source, IndexMap(first.initial_indices, tuple(places)))
    return made  # type: ignore[no-any-return]


def _pads(mapping: IndexMap, shape: tuple[PrimExpr, ...]) -> bool:
    """Whether there are places without an element, as far as is known."""
    if set(mapping.final_indices) == set(mapping.initial_indices) and len(mapping.final_indices) == len(shape):
        return False
    if any(ops.as_int(size) is None or ops.as_int(size) == 0 for size in shape):
        return True
    return not ops.is_const(mapping.non_surjective_inverse(shape)[1], 0)
