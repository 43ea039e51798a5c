"""`Range` as Apache TVM has it: made of a begin and an end."""

from __future__ import annotations

from compiler.arith.analyzer import simplify
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


class _Ranges(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, n.Range)


class Range(metaclass=_Ranges):
    """The values from `begin` up to before `end`; with one argument, from 0 up to before it."""

    def __new__(cls, begin: PrimExpr | int, end: PrimExpr | int | None = None) -> n.Range:  # type: ignore[misc]
        if end is None:
            return n.Range.from_extent(begin)
        low, high = ops.match_types(begin, end)
        return n.Range(low, simplify(high - low))

    @staticmethod
    def from_min_extent(min_value: PrimExpr | int, extent: PrimExpr | int) -> n.Range:
        """Make the range of `extent` values from `min_value` on."""
        low, length = ops.match_types(min_value, extent)
        return n.Range(low, length)
