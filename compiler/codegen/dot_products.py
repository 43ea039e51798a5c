"""Instructions that multiply groups of narrow lanes and add them to wide ones: AVX-512 VNNI, AVX512-BF16.

`x86_dpbusd(c, a, b)`: c[i] + Σ_{j<4} a[j] * b[4 i + j], with c of int32, a of uint8 (one group for all lanes of c) and
b of int8. `x86_dpbf16ps(c, a, b)`: the same in float32 with groups of two bfloat16. Intel, "Intrinsics Guide":
_mm512_dpbusd_epi32, _mm512_dpbf16_ps; the latter adds the second of a group first and takes denormals for 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.gen import Gen
from compiler.codegen.types import lanes_of, llvm_type
from compiler.dtype import element_of
from compiler.errors import CodegenError
from compiler.tir import nodes as n


@dataclass(frozen=True)
class DotProduct:
    """An instruction: what LLVM calls it, and the type it gives narrow lanes; its dtypes, the lanes in a group, and
    the features one of which it needs."""

    llvm: str
    operand: str
    accumulator: str
    dtypes: tuple[str, str]
    group: int
    features: tuple[str, ...]


DOT_PRODUCTS = {
    "x86_dpbusd": DotProduct("llvm.x86.avx512.vpdpbusd", "i8", "int32", ("uint8", "int8"), 4, ("avx512vnni",)),
    "x86_dpbf16ps": DotProduct(
        "llvm.x86.avx512bf16.dpbf16ps", "bfloat", "float32", ("bfloat16", "bfloat16"), 2, ("avx512bf16",)
    ),
}


def dot_product(g: Gen, call: n.Call) -> str:
    """The instruction for a call. Raises CodegenError where dtypes do not fit, or the target has no such one."""
    name = getattr(call.op, "name", "").removeprefix("tir.")
    kind = DOT_PRODUCTS[name]
    c, a, b = call.args
    lanes = lanes_of(call.dtype)
    wanted = [kind.accumulator, *kind.dtypes]
    fits = [element_of(x.dtype) for x in call.args] == wanted and lanes in (4, 8, 16)
    if not fits or lanes_of(a.dtype) != kind.group or lanes_of(b.dtype) != kind.group * lanes:
        raise CodegenError(f"{g.symbol}: {name} of {c.dtype}, {a.dtype} and {b.dtype} is no instruction")
    if not set(kind.features) & set(g.module.options.features):
        raise CodegenError(
            f"{g.symbol}: {name} needs a CPU with {' or '.join(kind.features)}", hint="name one in the target's mattr"
        )
    word = "i32"
    one = g.w.value(f"bitcast {llvm_type(a.dtype)} {g.value(a)} to {word}", g.value(a))
    words = f"<{lanes} x {word}>"
    first = g.w.inline(f"insertelement {words} poison, {word} {one}, i64 0")
    spread = g.w.inline(f"shufflevector {words} {first}, {words} poison, <{lanes} x i32> zeroinitializer")
    group, total = f"<{kind.group * lanes} x {kind.operand}>", llvm_type(call.dtype)
    left = g.w.inline(f"bitcast {words} {spread} to {group}")
    right = g.w.inline(f"bitcast {llvm_type(b.dtype)} {g.value(b)} to {group}")
    symbol = f"@{kind.llvm}.{32 * lanes}"
    g.module.declare(symbol, f"{total} {symbol}({total}, {group}, {group})")
    return g.w.inline(f"call {total} {symbol}({total} {g.value(c)}, {group} {left}, {group} {right})")
