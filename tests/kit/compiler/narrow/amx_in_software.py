"""Run kernels for Intel's matrix unit (AMX) on CPUs without one.

LLVM IR holds the unit's instructions as calls. Here they call functions that do the same in other instructions, on
tiles that are vectors of 16 × 16 words. All else of a kernel is as it is on such a CPU.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from compiler.codegen.llvm import llvm
from compiler.runtime.core.code import cpu_module
from compiler.target.cpu_features import host_cpu
from compiler.target.target import Target

_WORDS = "<256 x i32>"
_VECTOR = "<16 x i32>"
_INTRINSICS = re.compile(
    r"@llvm\.x86\.(tilezero|tileloadd64|tilestored64|tdp\w+)\.internal|@llvm\.x86\.cast\.(\w+\.to\.\w+)\.v"
)
_UNIT = frozenset(("amx-tile", "amx-bf16", "amx-int8"))
_NEEDED = frozenset(("avx512f", "avx512bw", "avx512vl", "avx512bf16"))
"""What the rest of these kernels takes of a CPU."""


def target_with_tiles(monkeypatch: pytest.MonkeyPatch, cores: int = 1) -> Target:
    """This CPU, as if it had the unit: code for it that is made from now on does without.
    A CPU that has the unit uses it. The test is skipped where the CPU lacks the rest."""
    host = Target.host()
    if host.features >= _UNIT:
        return Target(f"{host} -num-cores={cores}")
    if not host_cpu().features >= _NEEDED:
        pytest.skip(f"this CPU has neither a matrix unit (AMX) nor all of {', '.join(sorted(_NEEDED))}")
    parsed, told = llvm._parsed, cpu_module.told_features

    def without_the_unit(text: str, machine: Any, context: Any = None) -> Any:
        return parsed(in_software(text), machine, context)

    monkeypatch.setattr(llvm, "_parsed", without_the_unit)
    monkeypatch.setattr(cpu_module, "told_features", lambda: told() | _UNIT)
    features = ",".join([*host.mattr, *(f"+{feature}" for feature in sorted(_UNIT))])
    return Target(f"llvm -mtriple={host.triple} -mcpu={host.mcpu} -mattr={features} -num-cores={cores}")


def in_software(text: str) -> str:
    """The same LLVM IR with functions in the place of the unit's instructions."""
    if "x86_amx" not in text:
        return text
    lines = [line for line in text.splitlines() if not (line.startswith("declare") and _is_of_unit(line))]
    body = _INTRINSICS.sub(lambda found: f"@software.{found[1] or found[2] + '.v'}", "\n".join(lines))
    counts = sorted({int(count) for count in re.findall(r"@software\.\w+\.to\.\w+\.v(\d+)i32", body)})
    products = sorted(set(re.findall(r"@software\.(tdp\w+)", body)))
    made = [
        _ZERO,
        _LOAD,
        _STORE,
        _GRANTED,
        *(_casts(count) for count in counts),
        *(_product(name) for name in products),
    ]
    return "\n".join([body.replace("x86_amx", _WORDS).replace("@tunefarm_tiles", "@software.granted"), *made])


def _is_of_unit(line: str) -> bool:
    return _INTRINSICS.search(line) is not None or "@tunefarm_tiles" in line


_GRANTED = "define internal i32 @software.granted() {\n  ret i32 1\n}"
_ZERO = f"define internal {_WORDS} @software.tilezero(i16 %rows, i16 %bytes) {{\n  ret {_WORDS} zeroinitializer\n}}"
_LOOP = """
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %next, %row ]
  %there = mul i64 %r, %stride
  %far = getelementptr i8, ptr %memory, i64 %there
  %here = mul i64 %r, 64
  %near = getelementptr i8, ptr %tile, i64 %here
  %held = load <16 x i32>, ptr {source}, align 1
  store <16 x i32> %held, ptr {target}, align 1
  %next = add i64 %r, 1
  %count = zext i16 %rows to i64
  %more = icmp ult i64 %next, %count
  br i1 %more, label %row, label %done
done:"""
_LOAD = f"""define internal {_WORDS} @software.tileloadd64(i16 %rows, i16 %bytes, ptr %memory, i64 %stride) {{
entry:
  %tile = alloca {_WORDS}, align 64
  store {_WORDS} zeroinitializer, ptr %tile, align 64{_LOOP.format(source="%far", target="%near")}
  %all = load {_WORDS}, ptr %tile, align 64
  ret {_WORDS} %all
}}"""
_STORE = f"""define internal void @software.tilestored64(i16 %rows, i16 %b, ptr %memory, i64 %stride, {_WORDS} %all) {{
entry:
  %tile = alloca {_WORDS}, align 64
  store {_WORDS} %all, ptr %tile, align 64{_LOOP.format(source="%near", target="%far")}
  ret void
}}"""


def _casts(count: int) -> str:
    """Vectors of `count` words to tiles and back."""
    kind, first = f"<{count} x i32>", ", ".join(f"i32 {i}" for i in range(count))
    grown = ", ".join(f"i32 {min(i, count)}" for i in range(256))
    return f"""define internal {_WORDS} @software.vector.to.tile.v{count}i32({kind} %v) {{
  %t = shufflevector {kind} %v, {kind} zeroinitializer, {_WORDS} <{grown}>
  ret {_WORDS} %t
}}
define internal {kind} @software.tile.to.vector.v{count}i32({_WORDS} %t) {{
  %v = shufflevector {_WORDS} %t, {_WORDS} poison, {kind} <{first}>
  ret {kind} %v
}}"""


def _product(name: str) -> str:
    """C[r] + Σ A[r, k] · B[k], each A and B a word of two bfloat16, or of four bytes."""
    lines = _pairs() if name == "tdpbf16ps" else _bytes(name[4:6])
    tiles = ", ".join(f"{_WORDS} %{operand}" for operand in ("cs", "as", "bs"))
    return f"""define internal {_WORDS} @software.{name}(i16 %rows, i16 %b, i16 %depth, {tiles}) {{
entry:
  %c = alloca {_WORDS}, align 64
  %a = alloca {_WORDS}, align 64
  %w = alloca {_WORDS}, align 64
  store {_WORDS} %cs, ptr %c, align 64
  store {_WORDS} %as, ptr %a, align 64
  store {_WORDS} %bs, ptr %w, align 64
  %words = lshr i16 %depth, 2
  %groups = zext i16 %words to i64
  %count = zext i16 %rows to i64
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %group.done ]
  %c.at = getelementptr {_VECTOR}, ptr %c, i64 %r
  %begin = mul i64 %r, 16
  %sum = load {_VECTOR}, ptr %c.at, align 64
  br label %group
group:
  %k = phi i64 [ 0, %row ], [ %k.next, %group ]
  %acc = phi {_VECTOR} [ %sum, %row ], [ %acc.next, %group ]
  %a.index = add i64 %begin, %k
  %a.at = getelementptr i32, ptr %a, i64 %a.index
  %a.word = load i32, ptr %a.at, align 4
  %a.one = insertelement {_VECTOR} poison, i32 %a.word, i32 0
  %x = shufflevector {_VECTOR} %a.one, {_VECTOR} poison, {_VECTOR} zeroinitializer
  %b.at = getelementptr {_VECTOR}, ptr %w, i64 %k
  %y = load {_VECTOR}, ptr %b.at, align 64
{lines}
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %groups
  br i1 %k.more, label %group, label %group.done
group.done:
  store {_VECTOR} %acc.next, ptr %c.at, align 64
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %count
  br i1 %r.more, label %row, label %done
done:
  %all = load {_WORDS}, ptr %c, align 64
  ret {_WORDS} %all
}}"""


def _all(value: int) -> str:
    return f"<{', '.join(f'i32 {value}' for _ in range(16))}>"


def _pairs() -> str:
    floats = "<16 x float>"
    lines = [f"  %f0 = bitcast {_VECTOR} %acc to {floats}"]
    for half, (op, by) in enumerate((("shl", 16), ("and", 0xFFFF0000))):
        for side in "xy":
            lines.append(f"  %{side}{half}w = {op} {_VECTOR} %{side}, {_all(by)}")
            lines.append(f"  %{side}{half} = bitcast {_VECTOR} %{side}{half}w to {floats}")
        lines.append(f"  %p{half} = fmul {floats} %x{half}, %y{half}")
        lines.append(f"  %f{half + 1} = fadd {floats} %f{half}, %p{half}")
    return "\n".join([*lines, f"  %acc.next = bitcast {floats} %f2 to {_VECTOR}"])


def _bytes(signs: str) -> str:
    lines = [f"  %s0 = add {_VECTOR} %acc, zeroinitializer"]
    for byte in range(4):
        for side, sign in zip("xy", signs):
            down = "ashr" if sign == "s" else "lshr"
            lines.append(f"  %{side}{byte}h = shl {_VECTOR} %{side}, {_all(24 - 8 * byte)}")
            lines.append(f"  %{side}{byte} = {down} {_VECTOR} %{side}{byte}h, {_all(24)}")
        lines.append(f"  %p{byte} = mul {_VECTOR} %x{byte}, %y{byte}")
        lines.append(f"  %s{byte + 1} = add {_VECTOR} %s{byte}, %p{byte}")
    return "\n".join([*lines, f"  %acc.next = add {_VECTOR} %s4, zeroinitializer"])
