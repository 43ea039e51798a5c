"""Several vectors of floats become one of bytes, by instructions of AVX-512 that pack two into one.

Bytes are from 0 to 255. The instructions limit what they pack to the range of the result. So nothing is compared with
the least number. No vector is narrowed by itself, which takes two shuffles each:

    16 float32 × 4   →   int32 × 4   →   2 × 32 int16, zero point added   →   64 uint8   →   in order

Intel, "Intrinsics Guide": _mm512_cvtps_epi32, _mm512_packs_epi32, _mm512_adds_epi16, _mm512_packus_epi16.
"""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import llvm_type

PACKED = (32, 64)  # lanes
_LANES = 16
_NEAREST = 4  # as the CPU is set to round


def packed(g: Gen, dtype: str, value: str, ty: str, shift: int) -> str:
    """Return 32 or 64 floats rounded to the nearest integers and shifted, as uint8 from 0 to 255.

    `value` is their name and `ty` their type. No float may be above what int32 holds. What is far below, and NaN,
    becomes 0. `shift` is within -255 and 255.
    """
    lanes = int(ty[1 : ty.index(" ")])
    whole = [_integers(g, ty, value, at) for at in range(0, lanes, _LANES)]
    words = [_pack(g, "packssdw", "<16 x i32>", "<32 x i16>", a, b) for a, b in zip(whole[::2], whole[1::2])]
    if shift:
        words = [_shifted(g, word, shift) for word in words]
    made = _pack(g, "packuswb", "<32 x i16>", "<64 x i8>", words[0], words[-1])
    count = lanes // 4  # words of 32 bits; each quarter of the vector has four of every packed one
    order = ", ".join(f"i32 {4 * (i % 4) + i // 4}" for i in range(count))
    fours = g.w.inline(f"bitcast <64 x i8> {made} to <16 x i32>")
    ordered = g.w.inline(f"shufflevector <16 x i32> {fours}, <16 x i32> poison, <{count} x i32> <{order}>")
    return g.w.inline(f"bitcast <{count} x i32> {ordered} to {llvm_type(dtype)}")


def _integers(g: Gen, ty: str, value: str, at: int) -> str:
    """Return 16 floats of `value` from `at` on as int32; its least number for what it does not hold."""
    order = ", ".join(f"i32 {lane}" for lane in range(at, at + _LANES))
    part = g.w.inline(f"shufflevector {ty} {value}, {ty} poison, <{_LANES} x i32> <{order}>")
    name = "@llvm.x86.avx512.mask.cvtps2dq.512"
    g.module.declare(name, f"<16 x i32> {name}(<16 x float>, <16 x i32>, i16, i32 immarg)")
    given = f"<16 x float> {part}, <16 x i32> zeroinitializer, i16 -1, i32 {_NEAREST}"
    return g.w.inline(f"call <16 x i32> {name}({given})")


def _pack(g: Gen, op: str, ty: str, result: str, a: str, b: str) -> str:
    name = f"@llvm.x86.avx512.{op}.512"
    g.module.declare(name, f"{result} {name}({ty}, {ty})")
    return g.w.inline(f"call {result} {name}({ty} {a}, {ty} {b})")


def _shifted(g: Gen, words: str, shift: int) -> str:
    """Return 32 integers of 16 bits, each with `shift` added, within their range."""
    ty, name = "<32 x i16>", "@llvm.sadd.sat.v32i16"
    g.module.declare(name, f"{ty} {name}({ty}, {ty})")
    return g.w.inline(f"call {ty} {name}({ty} {words}, {ty} splat (i16 {shift}))")
