"""Products with a transposed matrix read it as it lies."""

from __future__ import annotations

from compiler import topi
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls, shape_of
from compiler.relax.transform.passes import relax_pass
from compiler.te.tensor import Tensor


@relax_pass("FuseTransposeMatmul", opt_level=1)
def fuse_transpose_matmul(mod: IRModule, context: PassContext) -> IRModule:
    """Multiply by a matrix as it lies in memory instead of transposing it first.

    lv = R.permute_dims(w, [1, 0])    →    gv = R.call_tir(cls.NT_matmul, (x, w), …)
    gv = R.matmul(x, lv)

    The second factor's last two dimensions are meant. A transposed matrix that others use stays.
    """
    return rewrite_calls(mod, {"relax.matmul": _product})


def _product(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    before = rewriter.call_of(call.args[1], "relax.permute_dims")
    if before is None or rewriter.uses(call.args[1]) != 1:
        return None
    shape = shape_of(before.args[0])
    if shape is None or shape_of(call.args[0]) is None or len(shape) < 2:
        return None
    rank, axes = len(shape), before.attrs["axes"]
    order = list(reversed(range(rank))) if axes is None else [axis % rank for axis in axes]
    if order != [*range(rank - 2), rank - 1, rank - 2]:
        return None
    wide = call.attrs["out_dtype"] or None

    def product(x: Tensor, w: Tensor) -> Tensor:
        return topi.matmul(x, w, transp_b=True, out_dtype=wide)

    return rewriter.builder_.call_te(product, call.args[0], before.args[0], primfunc_name_hint="NT_matmul")
