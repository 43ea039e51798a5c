"""Floats of integers with few values, such as weights of 4 bits, looked up in a register with AVX-512.

    float32((x & 15) - 8)    →    vpermps(x, (-8.0, -7.0, …, 7.0))

The instruction takes the last four bits of each lane of `x`. It stands for the mask, what follows it, and the
conversion.

Intel, "Intrinsics Guide": _mm512_permutexvar_ps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import float_constant, lanes_of, llvm_type
from compiler.dtype import element_of
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_VALUES = 16  # numbers of a register, and the places that an index can name
_EXACT = 1 << 24  # float32 has every whole number up to it
_LOOK_UP = "@llvm.x86.avx512.permvar.sf.512"


@dataclass(frozen=True)
class FewValues:
    """Numbers at the places that the last four bits of `place` (int32) name."""

    place: PrimExpr
    numbers: tuple[int, ...]


def few_values(g: Gen, expr: n.Cast) -> FewValues | None:
    """Return what `expr`, a conversion to float32, can be looked up in; None for another expression."""
    lanes, value = lanes_of(expr.dtype), expr.value
    if element_of(expr.dtype) != "float32" or element_of(value.dtype) != "int32" or lanes % _VALUES:
        return None
    if "avx512f" not in g.module.options.features or g.module.options.device is not None:
        return None
    return _of_bits(value)


def looked_up(g: Gen, found: FewValues) -> str:
    """Return the floats of `found`, a register of them at a time."""
    lanes, ty = lanes_of(found.place.dtype), llvm_type(found.place.dtype)
    place = g.value(found.place)
    parts = [_register(g, place, ty, at, found.numbers) for at in range(0, lanes, _VALUES)]
    width = _VALUES
    while len(parts) > 1:
        if len(parts) % 2:
            parts.append(parts[-1])
        parts = [_shuffled(g, width, a, b, 2 * width) for a, b in zip(parts[::2], parts[1::2])]
        width *= 2
    return parts[0] if width == lanes else _shuffled(g, width, parts[0], "poison", lanes)


def _of_bits(expr: PrimExpr) -> FewValues | None:
    """Return `expr` as numbers that the last four bits of another one name."""
    if isinstance(expr, n.Call) and getattr(expr.op, "name", "") == "tir.bitwise_and":
        kept = _whole(expr.args[1])
        if kept is None or not 0 <= kept < _VALUES:
            return None
        return FewValues(expr.args[0], tuple(at & kept for at in range(_VALUES)))
    if not isinstance(expr, n.Add | n.Sub | n.Mul):
        return None
    inner, by = _of_bits(expr.a), _whole(expr.b)
    if inner is None or by is None:
        return None
    match expr:
        case n.Add():
            numbers = tuple(number + by for number in inner.numbers)
        case n.Sub():
            numbers = tuple(number - by for number in inner.numbers)
        case n.Mul():
            numbers = tuple(number * by for number in inner.numbers)
        case _:
            assert_never(expr)
    return FewValues(inner.place, numbers) if max(map(abs, numbers)) <= _EXACT else None


def _whole(expr: PrimExpr) -> int | None:
    inner = expr.value if isinstance(expr, n.Broadcast) else expr
    return inner.value if isinstance(inner, n.IntImm) else None


def _register(g: Gen, place: str, ty: str, at: int, numbers: tuple[int, ...]) -> str:
    part = place
    if not ty.startswith(f"<{_VALUES} "):
        order = ", ".join(f"i32 {lane}" for lane in range(at, at + _VALUES))
        part = g.w.value(f"shufflevector {ty} {place}, {ty} poison, <{_VALUES} x i32> <{order}>", place)
    values = ", ".join("float " + float_constant(float(number), "float32") for number in numbers)
    g.module.declare(_LOOK_UP, f"<16 x float> {_LOOK_UP}(<16 x float>, <16 x i32>)")
    return g.w.value(f"call <16 x float> {_LOOK_UP}(<16 x float> <{values}>, <16 x i32> {part})", part)


def _shuffled(g: Gen, width: int, a: str, b: str, lanes: int) -> str:
    ty, order = f"<{width} x float>", ", ".join(f"i32 {lane}" for lane in range(lanes))
    return g.w.value(f"shufflevector {ty} {a}, {ty} {b}, <{lanes} x i32> <{order}>", a, b)
