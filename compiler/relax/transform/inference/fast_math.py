"""Functions that take long are approximated."""

from __future__ import annotations

from collections.abc import Callable

from compiler import topi
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls
from compiler.relax.transform.passes import relax_pass
from compiler.te.tensor import Tensor


@relax_pass("FastMathTransform")
def fast_math(mod: IRModule, context: PassContext) -> IRModule:
    """Compute exp, tanh, erf and softmax of float32 by few operations, less exactly.

    lv = R.tanh(x)    →    lv = R.call_tir(cls.fast_tanh, (x,), …)

    Values are off by about 1e-6. Apply it before LegalizeOps.
    """
    rules = {
        "relax.exp": _by(topi.fast_exp),
        "relax.tanh": _by(topi.fast_tanh),
        "relax.erf": _by(topi.fast_erf),
        "relax.nn.softmax": _softmax,
    }
    return rewrite_calls(mod, rules)


def _by(function: Callable[[Tensor], Tensor]) -> Callable[[CallRewriter, Call], RelaxExpr]:
    return lambda rewriter, call: rewriter.builder_.call_te(function, call.args[0])


def _softmax(rewriter: CallRewriter, call: Call) -> RelaxExpr:
    return rewriter.builder_.call_te(topi.nn.fast_softmax, call.args[0], call.attrs["axis"])
