"""Integer division that never faults, whatever the operands.

CPUs trap on a division by zero and on the least integer by -1, and LLVM leaves both undefined. Here a quotient or
remainder by 0 is 0, and the least integer by -1 wraps to itself.
"""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import vector_of


def divide(
    g: Gen, element: str, lanes: int, a: str, b: str, *, signed: bool, quotient: bool, floors: bool, safe: bool
) -> str:
    """a / b (`quotient`) or a % b of integers of type `element`, rounded down (`floors`) or towards zero.

    `safe`: b is known to be neither 0 nor -1.
    """
    w, ty = g.w, vector_of(element, lanes)
    divisor, special = (b, "") if safe else _usual_divisor(g, element, lanes, b, signed)
    prefix = "s" if signed else "u"
    if not signed or not floors:
        found = w.value(f"{prefix}{'div' if quotient else 'rem'} {ty} {a}, {divisor}", a, divisor)
    else:
        found = _floored(g, ty, lanes, a, divisor, quotient)
    if not special or not quotient:
        return found  # the remainder by 1 is 0, as it should be
    unusual = w.value(f"mul {ty} {a}, {b}", a, b) if signed else _splat(element, lanes, 0)
    return _select(g, lanes, special, ty, unusual, found)


def _usual_divisor(g: Gen, element: str, lanes: int, b: str, signed: bool) -> tuple[str, str]:
    """b, but 1 where it is 0 (or -1), and where that is."""
    w, ty = g.w, vector_of(element, lanes)
    if signed:
        above = w.value(f"add {ty} {b}, {_splat(element, lanes, 1)}", b)
        special = w.value(f"icmp ult {ty} {above}, {_splat(element, lanes, 2)}", above)
    else:
        special = w.value(f"icmp eq {ty} {b}, {_splat(element, lanes, 0)}", b)
    return _select(g, lanes, special, ty, _splat(element, lanes, 1), b), special


def _floored(g: Gen, ty: str, lanes: int, a: str, b: str, quotient: bool) -> str:
    """The truncated result, less one if the remainder is not 0 and differs in sign from the divisor."""
    w, mask, zero = g.w, vector_of("i1", lanes), "0" if lanes == 1 else "zeroinitializer"
    remainder = w.value(f"srem {ty} {a}, {b}", a, b)
    mixed = w.value(f"xor {ty} {remainder}, {b}", remainder, b)
    opposite = w.value(f"icmp slt {ty} {mixed}, {zero}", mixed)
    uneven = w.value(f"icmp ne {ty} {remainder}, {zero}", remainder)
    fix = w.value(f"and {mask} {opposite}, {uneven}", opposite, uneven)
    if not quotient:
        extra = _select(g, lanes, fix, ty, b, zero)
        return w.value(f"add {ty} {remainder}, {extra}", remainder, extra)
    whole = w.value(f"sdiv {ty} {a}, {b}", a, b)
    step = w.value(f"zext {mask} {fix} to {ty}", fix)
    return w.value(f"sub {ty} {whole}, {step}", whole, step)


def _select(g: Gen, lanes: int, test: str, ty: str, a: str, b: str) -> str:
    return g.w.value(f"select {vector_of('i1', lanes)} {test}, {ty} {a}, {ty} {b}", test, a, b)


def _splat(element: str, lanes: int, value: int) -> str:
    return str(value) if lanes == 1 else f"splat ({element} {value})"
