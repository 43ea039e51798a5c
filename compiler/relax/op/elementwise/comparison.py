"""Comparisons and logic of two tensors, elementwise with broadcasting."""

from __future__ import annotations

from compiler import topi
from compiler.relax.op.core.families import NOT_SMOOTH, binary
from compiler.relax.op.core.rules import broadcast

_TELLS = broadcast(dtype="bool")

equal = binary("equal", topi.equal, "Tell where two tensors are equal", infer=_TELLS, gradient=NOT_SMOOTH)
not_equal = binary("not_equal", topi.not_equal, "Tell where two tensors differ", infer=_TELLS, gradient=NOT_SMOOTH)
less = binary("less", topi.less, "Tell where x1 < x2", infer=_TELLS, gradient=NOT_SMOOTH)
less_equal = binary("less_equal", topi.less_equal, "Tell where x1 <= x2", infer=_TELLS, gradient=NOT_SMOOTH)
greater = binary("greater", topi.greater, "Tell where x1 > x2", infer=_TELLS, gradient=NOT_SMOOTH)
greater_equal = binary("greater_equal", topi.greater_equal, "Tell where x1 >= x2", infer=_TELLS, gradient=NOT_SMOOTH)
logical_and = binary("logical_and", topi.logical_and, "Tell where both are true", infer=_TELLS, gradient=NOT_SMOOTH)
logical_or = binary("logical_or", topi.logical_or, "Tell where one is true", infer=_TELLS, gradient=NOT_SMOOTH)
logical_xor = binary("logical_xor", topi.logical_xor, "Tell where just one is true", infer=_TELLS, gradient=NOT_SMOOTH)

__all__ = [
    "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip
