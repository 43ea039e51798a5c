"""float32 rounded to bfloat16 by an instruction.

`vcvtneps2bf16` (AVX512-BF16) rounds to the nearest even number, and takes denormals for 0. So do the products of
`vdpbf16ps` and AMX, of all that they are given. A kernel without such products keeps denormals. There a vector that has
some, which is rare, is rounded once more, by ten instructions.

Intel, "Intrinsics Guide": _mm512_cvtneps_pbh, _mm512_dpbf16_ps, _tile_dpbf16ps, _mm512_fpclass_ps_mask.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import vector_of
from compiler.ir.visit import walk
from compiler.tir import nodes as n

_PRODUCTS = ("tir.x86_dpbf16ps", "tir.x86_amx_dpbf16ps")
_LANES = 8  # of the shortest vector that LLVM rounds by the instruction alone
_MOST = 16  # lanes of the longest one
_CLASSES = frozenset(("avx512dq", "avx512vl"))  # the features that tell denormals
_DENORMAL = 0x20  # the class of numbers


def takes_denormals_for_zero(body: n.Stmt) -> bool:
    """Whether a kernel has products that take denormals of bfloat16 for 0."""
    return any(isinstance(node, n.Call) and getattr(node.op, "name", "") in _PRODUCTS for node in walk(body))


def rounded(g: Gen, value: str, lanes: int, exactly: Callable[[], str]) -> str:
    """Return the bits of `lanes` floats as bfloat16. `exactly` computes them in integers.
    It does so where there is no instruction, and for vectors with denormals that count."""
    if lanes % _LANES or "avx512bf16" not in g.module.options.features:
        return exactly()
    if g.denormals_are_zero:
        return _at_once(g, value, lanes)
    if g.w.is_invariant(value) or not g.module.options.features >= _CLASSES:
        return exactly()
    near, test = _at_once(g, value, lanes), _has_denormals(g, value, lanes)
    return g.w.rarely(test, vector_of("i16", lanes), near, exactly)


def _at_once(g: Gen, value: str, lanes: int) -> str:
    brain = vector_of("bfloat", lanes)
    near = g.w.value(f"fptrunc {vector_of('float', lanes)} {value} to {brain}", value)
    return g.w.value(f"bitcast {brain} {near} to {vector_of('i16', lanes)}", near)


def _has_denormals(g: Gen, value: str, lanes: int) -> str:
    """Whether any of the floats is a denormal, by an instruction for each vector of 16 or 8."""
    width = min(lanes, _MOST)
    ty, mask, name = vector_of("float", width), vector_of("i1", width), f"@llvm.x86.avx512.fpclass.ps.{32 * width}"
    g.module.declare(name, f"{mask} {name}({ty}, i32 immarg)")
    found = list[str]()
    for at in range(0, lanes, width):
        order = ", ".join(f"i32 {lane}" for lane in range(at, at + width))
        whole = vector_of("float", lanes)
        part = g.w.inline(f"shufflevector {whole} {value}, {whole} poison, <{width} x i32> <{order}>")
        found.append(g.w.inline(f"call {mask} {name}({ty} {part}, i32 {_DENORMAL})"))
    any_of = found[0]
    for other in found[1:]:
        any_of = g.w.inline(f"or {mask} {any_of}, {other}")
    return g.w.inline(f"icmp ne i{width} {g.w.inline(f'bitcast {mask} {any_of} to i{width}')}, 0")
