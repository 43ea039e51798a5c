"""Masks of vectors whose lanes are known, but for conditions that all lanes share.

    lane < 7 and row < rows and 1 <= lane * 2        →  lanes 1 to 6, if row < rows

Padding and tiles at an edge leave such masks. They are constants, and two of them can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.dtype import element_of
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

ValueOf = Callable[[PrimExpr], int | None]
"""Returns the number that an integer expression is; None if it is not known."""


@dataclass(frozen=True, slots=True)
class LaneMask:
    """The lanes that are `on` where all conditions in `when` hold."""

    on: tuple[bool, ...]
    when: tuple[PrimExpr, ...] = ()

    @property
    def first_lanes(self) -> int | None:
        """How many lanes are on, if they are the first ones and there is no condition."""
        count = sum(self.on)
        return count if not self.when and all(self.on[:count]) else None

    @property
    def span(self) -> range | None:
        """The lanes that are on, if there are any and they are neighbours."""
        if not any(self.on):
            return None
        found = range(self.on.index(True), len(self.on) - self.on[::-1].index(True))
        return found if all(self.on[lane] for lane in found) else None


def lane_mask(predicate: PrimExpr, value_of: ValueOf = ops.as_int) -> LaneMask | None:
    """Return what is known of a mask; None where lanes differ by what is not known."""
    match predicate:
        case n.And(a=a, b=b):
            left, right = lane_mask(a, value_of), lane_mask(b, value_of)
            if left is None or right is None:
                return None
            return LaneMask(tuple([x and y for x, y in zip(left.on, right.on)]), (*left.when, *right.when))
        case n.Broadcast(value=value, lanes=lanes):
            known = ops.as_int(value)
            return LaneMask((True,) * lanes, (value,)) if known is None else LaneMask((bool(known),) * lanes)
        case n.LT(a=a, b=b) | n.GT(a=b, b=a):
            return _compared(a, b, 1, value_of)
        case n.LE(a=a, b=b) | n.GE(a=b, b=a):
            return _compared(a, b, 0, value_of)
    return None


def _compared(a: PrimExpr, b: PrimExpr, least: int, value_of: ValueOf) -> LaneMask | None:
    """The lanes of `b` that are at least `least` more than those of `a`."""
    left, right = _lanes(a, value_of), _lanes(b, value_of)
    if left is None or right is None:
        return None
    return LaneMask(tuple([y - x >= least for x, y in zip(left, right)]))


def _lanes(expr: PrimExpr, value_of: ValueOf) -> tuple[int, ...] | None:
    """The lanes of a vector of known integers."""
    if element_of(expr.dtype) not in ("int32", "int64"):
        return None
    match expr:
        case n.Ramp(base=base, stride=n.IntImm(value=stride), lanes=lanes):
            first = value_of(base)
            return None if first is None else tuple([first + lane * stride for lane in range(lanes)])
        case n.Broadcast(value=value, lanes=lanes):
            number = value_of(value)
            return None if number is None else (number,) * lanes
    return None
