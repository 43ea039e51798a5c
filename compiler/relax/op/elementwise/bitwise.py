"""Operators on the bits of whole numbers, elementwise with broadcasting."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.relax.op.core.families import BITS, binary, unary
from compiler.relax.op.core.rules import broadcast, like
from compiler.te.tensor import Tensor


def _xor(x1: Tensor, x2: Tensor) -> Any:
    return (topi.logical_xor if x1.dtype == "bool" else topi.bitwise_xor)(x1, x2)


_WHOLE = broadcast(integers=True)
_WHOLE_OR_BOOL = broadcast(integers=True, bools=True)

bitwise_and = binary("bitwise_and", topi.bitwise_and, "Keep the bits in both", infer=_WHOLE_OR_BOOL, gradient=BITS)
bitwise_or = binary("bitwise_or", topi.bitwise_or, "Keep the bits in either", infer=_WHOLE_OR_BOOL, gradient=BITS)
bitwise_xor = binary("bitwise_xor", _xor, "Keep the bits in just one", infer=_WHOLE_OR_BOOL, gradient=BITS)
left_shift = binary("left_shift", topi.left_shift, "Move the bits of x1 up by x2", infer=_WHOLE, gradient=BITS)
right_shift = binary("right_shift", topi.right_shift, "Move the bits of x1 down by x2", infer=_WHOLE, gradient=BITS)
bitwise_not = unary("bitwise_not", topi.bitwise_not, "Turn every bit over.", infer=like("x", integers=True, bools=True),
                    gradient=BITS)  # fmt: skip

__all__ = ["bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
