"""Approximations of functions by few operations, for float32.

Errors of about 1e-6 of the value, or of 1.

They are for where vectors of exact functions are not fast enough. Other element types get the exact function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr
from compiler.topi import elemwise

_LOG2E, _LN2 = 1.4426950408889634, 0.6931471805599453
_LARGEST, _LEAST = 88.3762626647949, -87.3365447505531  # where e^x leaves the normal numbers
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_TANH = ((-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
          1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
         (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03))  # fmt: skip
_ERF = ((-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
         -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
        (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
         -1.42647390514189e-02))  # fmt: skip


def _clamped(x: PrimExpr, low: float, high: float) -> PrimExpr:
    return ops.maximum(ops.minimum(x, const(high, x.dtype)), const(low, x.dtype))


def _polynomial(x: PrimExpr, factors: Sequence[float]) -> PrimExpr:
    """Factors of falling powers."""
    found: PrimExpr = const(factors[0], x.dtype)
    for factor in factors[1:]:
        found = found * x + const(factor, x.dtype)
    return found


def fast_exp_of(x: PrimExpr) -> PrimExpr:
    """e^x as 2^n e^f, f being at most half of ln 2: a polynomial of f, n written into the exponent."""
    bounded = _clamped(x, _LEAST, _LARGEST)
    whole = intrin.floor(bounded * const(_LOG2E, "float32") + const(0.5, "float32"))
    rest = bounded - whole * const(_LN2, "float32")
    part = _polynomial(rest, _EXP) * rest * rest + rest + const(1.0, "float32")
    power = intrin.left_shift(whole.astype("int32") + const(127, "int32"), const(23, "int32"))
    return part * intrin.reinterpret("float32", power)


def _quotient(bound: float, factors: tuple[Sequence[float], Sequence[float]]) -> Callable[[PrimExpr], PrimExpr]:
    """An odd function by a quotient of polynomials of x * x; constant beyond `bound`."""

    def value(x: PrimExpr) -> PrimExpr:
        bounded = _clamped(x, -bound, bound)
        squared = bounded * bounded
        above, below = factors
        return bounded * _polynomial(squared, above) / _polynomial(squared, below)

    return value


def _fast(
    name: str, scalar: Callable[[PrimExpr], PrimExpr], exact: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    def build(x: Tensor) -> Tensor:
        if x.dtype != "float32":
            return exact(x)
        result: Tensor = compute(x.shape, lambda *i: scalar(x(*i)), name=f"T_{name}", tag="elemwise")
        return result

    build.__name__ = name
    build.__doc__ = f"As `{exact.__name__}`, by few operations, elementwise."
    return build


fast_exp = _fast("fast_exp", fast_exp_of, elemwise.exp)
fast_tanh = _fast("fast_tanh", _quotient(9.0, _TANH), elemwise.tanh)
fast_erf = _fast("fast_erf", _quotient(4.0, _ERF), elemwise.erf)

