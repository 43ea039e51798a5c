"""Divisions by powers of two become multiplications, which take less time and give the same."""

from __future__ import annotations

import numpy as np

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call, Constant, TensorStructInfo, const, info_of
from compiler.relax.op.elementwise.binary import multiply
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls
from compiler.relax.transform.passes import relax_pass

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_LEAST, _MOST = 2.0**-14, 2.0**14  # such powers, and their reciprocals, are normal numbers of all these types


@relax_pass("MultiplyByReciprocals")
def multiply_by_reciprocals(mod: IRModule, context: PassContext) -> IRModule:
    """Multiply by the reciprocals of constants that are powers of two, instead of dividing.

    lv = R.divide(x, R.const(8.0))    →    lv = R.multiply(x, R.const(0.125))

    Both round the same number, so results are the same. Constants of several numbers are all powers of two,
    or stay. So do other types than floats.
    """
    return rewrite_calls(mod, {"relax.divide": _product})


def _product(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    info, (dividend, divisor) = info_of(call), call.args
    held = _constant(rewriter, divisor)
    if held is None or not isinstance(info, TensorStructInfo) or info.dtype not in _FLOATS:
        return None
    numbers = held.data.numpy().astype("float64")
    mantissas, _ = np.frexp(numbers)
    sizes = np.abs(numbers)
    if not numbers.size or not np.all((np.abs(mantissas) == 0.5) & (sizes >= _LEAST) & (sizes <= _MOST)):
        return None
    return multiply(dividend, const(1.0 / numbers, info.dtype))


def _constant(rewriter: CallRewriter, value: RelaxExpr) -> Constant | None:
    """The constant that a value is, or is in another type of floats."""
    cast = rewriter.call_of(value, "relax.astype")
    found = rewriter.value_of(value if cast is None else cast.args[0])
    if not isinstance(found, Constant) or getattr(info_of(found), "dtype", None) not in _FLOATS:
        return None
    return found
