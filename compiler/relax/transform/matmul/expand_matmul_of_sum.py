"""A product with a sum of matrices becomes a sum of products."""

from __future__ import annotations

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call
from compiler.relax.nodes.dims import proven_equal
from compiler.relax.op.elementwise.binary import add
from compiler.relax.op.linear_algebra import matmul
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass


@relax_pass("ExpandMatmulOfSum", opt_level=1)
def expand_matmul_of_sum(mod: IRModule, context: PassContext) -> IRModule:
    """Compute x * (A + B) as x * A + x * B, unless A + B can be computed before the model runs.

    lv = R.add(A, B)        →    lv = R.matmul(x, A)
    gv = R.matmul(x, lv)         lv1 = R.matmul(x, B)
                                 gv = R.add(lv, lv1)

    B may be a product of two small matrices, so that `AdjustMatmulOrder` makes a little work of it.
    """
    return rewrite_calls(mod, {"relax.matmul": _expanded})


def _expanded(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    x, weights = call.args
    total = rewriter.call_of(weights, "relax.add")
    if total is None or rewriter.is_early(weights):
        return None
    a, b = (shape_of(item) for item in total.args)
    if a is None or b is None or len(a) != len(b) or not all(map(proven_equal, a, b)):
        return None
    out = call.attrs["out_dtype"]
    return add(*[matmul(x, item, out) for item in total.args])
