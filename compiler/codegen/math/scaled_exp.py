"""exp and sigmoid of float32 by instructions of AVX-512 that need no case for overflow.

x log2 e = n + r, 2^r by a polynomial, times 2^n by `vscalefps`, which rounds once and gives 0 and infinity where they
are due. `vrangeps` limits r, which is only beyond 1 where n alone says what the result is. NaN comes through n.

Intel, "Intrinsics Guide": _mm512_scalef_ps, _mm512_range_ps.
"""

from __future__ import annotations

from compiler.codegen.math import tables as t
from compiler.codegen.math.body import MathBody
from compiler.codegen.math.exp import EXP2
from compiler.codegen.math.registers import in_registers

FEATURES = frozenset({"avx512f", "avx512dq", "avx512vl"})

_MAGIC = 1.5 * 2.0**23  # added to a number, it rounds the fraction away
_LESSER = 2  # vrangeps: the operand of lesser size, with the sign of the first one
_AS_SET = 4  # rounding
_FAR = 2.0**-64  # e^-x times this neither overflows nor is denormal while 1 / (1 + e^-x) is above 0


def exp(m: MathBody, x: str) -> str:
    return _power(m, x, 1.0, 1.0)


def sigmoid(m: MathBody, x: str) -> str:
    """1 / (1 + e^-x), both sides of the division times 2^-64.
    The quotient alone becomes denormal then, for x far below 0. No case is made by the sign of x."""
    return m.div(_FAR, m.add(_power(m, x, -1.0, _FAR), _FAR))


def _power(m: MathBody, x: str, sign: float, factor: float) -> str:
    """e^(sign x) times `factor`, a power of 2."""
    high, low = (sign * part for part in t.LOG2_E[32])
    whole = m.sub(m.fma(x, high, _MAGIC), _MAGIC)
    r = m.fma(x, low, m.fma(x, high, m.neg(whole)))
    near = _call(m, "range", [r, m.number(1.0)], _LESSER)
    power = m.polynomial(near, [c * factor for c in (1.0, *EXP2[32])])
    return _call(m, "scalef", [power, whole], None)


def _call(m: MathBody, name: str, args: list[str], choice: int | None) -> str:
    """Call `llvm.x86.avx512.mask.<name>.ps`."""
    width = min(max(m.lanes, 4), 16)
    return in_registers(m, args, width, lambda given: _instruction(m, name, width, given, choice))


def _instruction(m: MathBody, name: str, lanes: int, args: list[str], choice: int | None) -> str:
    ty, bits = f"<{lanes} x float>", 32 * lanes
    mask, full = ("i16" if lanes == 16 else "i8"), f"@llvm.x86.avx512.mask.{name}.ps.{bits}"
    given = [(ty, a) for a in args]
    if choice is not None:
        given.append(("i32 immarg", str(choice)))
    given += [(ty, "zeroinitializer"), (mask, "-1")]
    if lanes == 16:
        given.append(("i32 immarg", str(_AS_SET)))
    m.declared[full] = f"{ty} {full}({', '.join(kind for kind, _ in given)})"
    operands = ", ".join(f"{kind.removesuffix(' immarg')} {value}" for kind, value in given)
    return m.emit(f"call {ty} {full}({operands})")
