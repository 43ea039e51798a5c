"""float32 rounded to bfloat16 by an instruction, in kernels that multiply pairs of bfloat16.

`vcvtneps2bf16` (AVX512-BF16) rounds to the nearest even number, and takes denormals for 0. So do the products of
`vdpbf16ps` and AMX, of all that they are given. A kernel without such products keeps denormals, and takes ten
instructions.

Intel, "Intrinsics Guide": _mm512_cvtneps_pbh, _mm512_dpbf16_ps, _tile_dpbf16ps.
"""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import vector_of
from compiler.ir.visit import walk
from compiler.tir import nodes as n

_PRODUCTS = ("tir.x86_dpbf16ps", "tir.x86_amx_dpbf16ps")
_LANES = 8  # of the shortest vector that LLVM rounds by the instruction alone


def takes_denormals_for_zero(body: n.Stmt) -> bool:
    """Whether a kernel has products that take denormals of bfloat16 for 0."""
    return any(isinstance(node, n.Call) and getattr(node.op, "name", "") in _PRODUCTS for node in walk(body))


def rounded_at_once(g: Gen, value: str, lanes: int) -> str | None:
    """The bits of `lanes` floats as bfloat16; None where it takes more than an instruction a vector."""
    if not g.denormals_are_zero or lanes % _LANES or "avx512bf16" not in g.module.options.features:
        return None
    brain = vector_of("bfloat", lanes)
    near = g.w.value(f"fptrunc {vector_of('float', lanes)} {value} to {brain}", value)
    return g.w.value(f"bitcast {brain} {near} to {vector_of('i16', lanes)}", near)
