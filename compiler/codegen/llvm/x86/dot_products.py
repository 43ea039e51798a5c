"""Instructions that multiply groups of narrow lanes and add them to wide ones.

VNNI, AVX512-BF16, and PMADDWD.

`x86_dpbusd(c, a, b)`: c[i] + Σ_{j<4} a[j] * b[4 i + j], with c of int32, a of uint8 (one group for all lanes of c) and
b of int8. An `a` as long as `b` has a group for each lane, a[4 i + j]. `x86_dpbf16ps(c, a, b)`: the same in float32
with groups of two bfloat16. `x86_pmaddwd(c, a, b)`: in int32 with groups of two int16; the addition is an instruction
of its own, except where VNNI has one for both (vpdpwssd). Intel, "Intrinsics Guide": _mm512_dpbusd_epi32,
_mm512_dpbf16_ps, _mm256_madd_epi16; the second adds the second of a group first and takes denormals for 0.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import lanes_of, llvm_type
from compiler.dtype import element_of
from compiler.errors import CodegenError
from compiler.tir import nodes as n


@dataclass(frozen=True)
class DotProduct:
    """An instruction: LLVM's name for each number of sums, LLVM's type of the narrow lanes, the dtypes.
    `group` is the number of lanes in a group. For each number of sums it lists sets of CPU features, one of which is
    needed. `adds`: whether it adds to given sums; if not, `adding` may be an instruction that does."""

    llvm: dict[int, str]
    operand: str
    accumulator: str
    dtypes: tuple[str, str]
    group: int
    features: dict[int, tuple[frozenset[str], ...]]
    adds: bool = True
    adding: str = ""

    def is_had(self, lanes: int, features: Collection[str]) -> bool:
        """Whether a CPU with `features` has the instruction for that many sums."""
        return any(needed <= set(features) for needed in self.features.get(lanes, ()))


def _avx512(feature: str, *others: str) -> dict[int, tuple[frozenset[str], ...]]:
    """The features that a CPU must have, one of several sets, by the number of sums.
    16 need AVX-512. Fewer need its shorter vectors, or one of the features `others`."""
    short = (*(frozenset({other}) for other in others), frozenset({feature, "avx512vl"}))
    return {4: short, 8: short, 16: (frozenset({feature}),)}


DOT_PRODUCTS = {
    "x86_dpbusd": DotProduct(
        {lanes: f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (4, 8, 16)}, "i8", "int32", ("uint8", "int8"), 4,
        _avx512("avx512vnni", "avxvnni"),
    ),
    "x86_dpbf16ps": DotProduct(
        {lanes: f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}" for lanes in (4, 8, 16)}, "bfloat", "float32",
        ("bfloat16", "bfloat16"), 2, _avx512("avx512bf16"),
    ),
    "x86_pmaddwd": DotProduct(
        {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}, "i16", "int32",
        ("int16", "int16"), 2,
        {lanes: (frozenset({feature}),) for lanes, feature in {4: "sse2", 8: "avx2", 16: "avx512bw"}.items()},
        False, "x86_dpwssd",
    ),
    "x86_dpwssd": DotProduct(
        {lanes: f"llvm.x86.avx512.vpdpwssd.{32 * lanes}" for lanes in (4, 8, 16)}, "i16", "int32",
        ("int16", "int16"), 2, _avx512("avx512vnni", "avxvnni"),
    ),
}  # fmt: skip


def dot_product(g: Gen, call: n.Call) -> str:
    """The instruction for a call.
    Raises CodegenError where dtypes do not fit, or the target has no such one."""
    name = getattr(call.op, "name", "").removeprefix("tir.")
    kind = DOT_PRODUCTS[name]
    c, a, b = call.args
    lanes = lanes_of(call.dtype)
    if kind.adding and DOT_PRODUCTS[kind.adding].is_had(lanes, g.module.options.features):
        kind = DOT_PRODUCTS[kind.adding]
    wanted = [kind.accumulator, *kind.dtypes]
    fits = [element_of(x.dtype) for x in call.args] == wanted and lanes in kind.llvm
    own = lanes_of(a.dtype) == kind.group * lanes
    if not fits or not (own or lanes_of(a.dtype) == kind.group) or lanes_of(b.dtype) != kind.group * lanes:
        raise CodegenError(f"{g.symbol}: {name} of {c.dtype}, {a.dtype} and {b.dtype} is no instruction")
    if not kind.is_had(lanes, g.module.options.features):
        needed = " or ".join(" + ".join(sorted(features)) for features in kind.features[lanes])
        raise CodegenError(f"{g.symbol}: {name} needs a CPU with {needed}", hint="name one in the target's mattr")
    group, total = f"<{kind.group * lanes} x {kind.operand}>", llvm_type(call.dtype)
    if own:
        left = g.w.inline(f"bitcast {llvm_type(a.dtype)} {g.value(a)} to {group}")
    else:
        left = _in_all_lanes(g, a, lanes, group)
    right = g.w.inline(f"bitcast {llvm_type(b.dtype)} {g.value(b)} to {group}")
    symbol = f"@{kind.llvm[lanes]}"
    if kind.adds:
        g.module.declare(symbol, f"{total} {symbol}({total}, {group}, {group})")
        return g.w.inline(f"call {total} {symbol}({total} {g.value(c)}, {group} {left}, {group} {right})")
    g.module.declare(symbol, f"{total} {symbol}({group}, {group})")
    products = g.w.inline(f"call {total} {symbol}({group} {left}, {group} {right})")
    return g.w.inline(f"add {total} {g.value(c)}, {products}")


def _in_all_lanes(g: Gen, a: n.PrimExpr, lanes: int, group: str) -> str:
    """Return the group `a` repeated for all lanes, of type `group`."""
    words = f"<{lanes} x i32>"
    one = g.w.value(f"bitcast {llvm_type(a.dtype)} {g.value(a)} to i32", g.value(a))
    first = g.w.inline(f"insertelement {words} poison, i32 {one}, i64 0")
    spread = g.w.inline(f"shufflevector {words} {first}, {words} poison, <{lanes} x i32> zeroinitializer")
    return g.w.inline(f"bitcast {words} {spread} to {group}")
