"""Instructions on registers of so many lanes, in bodies of any number of lanes."""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.math.body import MathBody


def in_registers(m: MathBody, args: list[str], width: int, one: Callable[[list[str]], str]) -> str:
    """Return what `one` makes of vectors of `width` floats, for all lanes of the body.
    Few lanes take a part of a register, many take several registers."""
    if m.lanes == width:
        return one(args)
    if m.lanes < width:
        return _first(m, one([_widened(m, a, width) for a in args]), width)
    parts = []
    for at in range(0, m.lanes, width):
        parts.append(one([_picked(m, a, [min(at + lane, m.lanes - 1) for lane in range(width)]) for a in args]))
    return _joined(m, parts, width)


def _widened(m: MathBody, x: str, width: int) -> str:
    """x in the first lanes of `width`."""
    if m.lanes == 1:
        return m.emit(f"insertelement <{width} x float> poison, float {x}, i64 0")
    return _picked(m, x, [min(lane, m.lanes - 1) for lane in range(width)])


def _first(m: MathBody, x: str, width: int) -> str:
    if m.lanes == 1:
        return m.emit(f"extractelement <{width} x float> {x}, i64 0")
    return _shuffled(m, f"<{width} x float>", x, "poison", list(range(m.lanes)))


def _picked(m: MathBody, x: str, lanes: list[int]) -> str:
    return _shuffled(m, m.type, x, "poison", lanes)


def _joined(m: MathBody, parts: list[str], width: int) -> str:
    """The lanes of `parts` in one vector; those beyond m.lanes are dropped."""
    while len(parts) > 1:
        if len(parts) % 2:
            parts.append(parts[-1])
        ty = f"<{width} x float>"
        parts = [_shuffled(m, ty, a, b, list(range(2 * width))) for a, b in zip(parts[::2], parts[1::2])]
        width *= 2
    return _first(m, parts[0], width) if width != m.lanes else parts[0]


def _shuffled(m: MathBody, ty: str, a: str, b: str, lanes: list[int]) -> str:
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return m.emit(f"shufflevector {ty} {a}, {ty} {b}, <{len(lanes)} x i32> <{order}>")
