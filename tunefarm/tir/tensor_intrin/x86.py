"""The product of bytes that x86 has: its name for `Schedule.tensorize`, what it computes and how."""

import compiler.tir.intrin.x86  # noqa: F401  (registers it)
from compiler.tir.intrin.tensor_intrin import TensorIntrin
from tunefarm.compatibility import refuse_other_names

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
"""16 sums of 4 products of uint8 and int8 (`vpdpbusd`)."""

_INTRIN = TensorIntrin.get(VNNI_DOT_16x4_INTRIN)
assert _INTRIN is not None
dot_product_16x4_u8i8i32_desc = _INTRIN.desc
dot_product_16x4_u8i8i32_vnni = _INTRIN.impl

__all__ = ["VNNI_DOT_16x4_INTRIN", "dot_product_16x4_u8i8i32_desc", "dot_product_16x4_u8i8i32_vnni"]

refuse_other_names(__name__)
