"""Reshapes that change nothing, or are followed by another, go."""

from __future__ import annotations

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call
from compiler.relax.nodes.dims import proven_equal
from compiler.relax.op.movement.manipulate import reshape
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass


@relax_pass("RemoveRedundantReshape", opt_level=1)
def remove_redundant_reshape(mod: IRModule, context: PassContext) -> IRModule:
    """Reshape once where it was done twice, and not at all where the shape is the same.

    lv = R.reshape(x, (8, 2))      →    gv = R.reshape(x, (4, 4))
    gv = R.reshape(lv, (4, 4))
    """
    return rewrite_calls(mod, {"relax.reshape": _reshaped})


def _reshaped(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    source, shape = call.args
    inner = rewriter.call_of(source, "relax.reshape")
    if inner is not None:
        source = inner.args[0]
    before, after = shape_of(source), shape_of(call)
    if before is not None and after is not None and len(before) == len(after) and all(map(proven_equal, before, after)):
        return source
    return None if inner is None else reshape(source, shape)
