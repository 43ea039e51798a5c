"""Decide whether two accesses of a kernel can conflict: whether different threads touch one element.

It counts which elements each thread of a block touches. Terms that both indices have in common (the block's number, an
outer loop's) cancel. If they do not cancel, or the elements are too many, the answer is yes. Conditions around an
access rule elements out, if they do so whatever the common part is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.arith.bounds import ANY, NATURAL, POS
from compiler.ir.structural import structural_equal
from compiler.lower.analysis.linear import LinearForms
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import free_vars

_MOST = 1 << 18  # threads times iterations counted out
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """An access of a thread.
    `index` is None for any element. `loops` are the serial loops around it in its kernel, outermost first;
    `conditions` hold where it is made. `begun` marks an asynchronous copy, which ends where it is waited for."""

    data: n.Var
    write: bool
    index: PrimExpr | None
    loops: tuple[n.For, ...]
    atomic: bool = False
    conditions: tuple[PrimExpr, ...] = ()
    begun: bool = False


@dataclass(frozen=True, slots=True)
class _Touched:
    """Elements without repetition, and the least and the greatest number of the threads that touch each."""

    elements: Array
    first: Array
    last: Array

    @staticmethod
    def of(elements: Array, threads: Array) -> _Touched:
        order = np.argsort(elements, kind="stable")
        found, starts = np.unique(elements[order], return_index=True)
        if not len(found):
            return _Touched(found, found, found)
        sorted_threads = threads[order]
        return _Touched(
            found, np.minimum.reduceat(sorted_threads, starts), np.maximum.reduceat(sorted_threads, starts)
        )

    def meets(self, other: _Touched) -> bool:
        """Whether some element is touched by a thread here and by another thread there."""
        _, mine, theirs = np.intersect1d(self.elements, other.elements, assume_unique=True, return_indices=True)
        first, last = self.first[mine], self.last[mine]
        return bool(np.any((first != last) | (first != other.first[theirs]) | (last != other.last[theirs])))


@dataclass(frozen=True, slots=True)
class ThreadRanges:
    """The threads of a block: extents by axis ("threadIdx.x"), and the axis of each bound loop's variable."""

    extents: Mapping[str, int]
    axes: Mapping[n.Var, str]
    opaque: frozenset[n.Var] = frozenset()  # variables that stand for what a thread computed
    _known: dict[tuple[int, frozenset[n.Var]], tuple[ThreadAccess, _Touched | None]] = field(default_factory=dict)

    def may_meet(self, a: ThreadAccess, b: ThreadAccess, repeated: n.For | None = None) -> bool:
        """Return whether two threads may use one element, `a` in one and `b` in the other, one writing.
        `repeated`: the loop of which `b` is in a later iteration than `a`."""
        if a.data is not b.data or not (a.write or b.write) or (a.atomic and b.atomic):
            return False
        if a.index is None or b.index is None:
            return True
        common: set[n.Var] = set()
        for loop, other in zip(a.loops, b.loops):
            if loop is not other or loop is repeated:
                break
            common.add(loop.loop_var)
        first, second = self._split(a.index, self._moving(a, common)), self._split(b.index, self._moving(b, common))
        if first is None or second is None or not _equal(first[0], second[0]):
            return True
        here, there = self._touched(first[1], a, common), self._touched(second[1], b, common)
        return here is None or there is None or here.meets(there)

    def _moving(self, access: ThreadAccess, common: set[n.Var]) -> set[n.Var]:
        """The variables that differ between the threads or iterations in question.
        All others have one value."""
        threads = {var for var, tag in self.axes.items() if tag.startswith("threadIdx")}
        return threads | ({loop.loop_var for loop in access.loops} - common)

    def _split(self, index: PrimExpr, moving: set[n.Var]) -> tuple[list[tuple[PrimExpr, int]], PrimExpr] | None:
        """`index` as terms of what is the same in both accesses, and the rest.
        None where it cannot be taken apart."""
        base, lanes = (index.base, index) if isinstance(index, n.Ramp) else (index, None)
        form = LinearForms().form(base)
        kept: list[tuple[PrimExpr, int]] = []
        rest: PrimExpr = ops.const(form.offset, base.dtype)
        for atom, scale in form.terms:
            used = free_vars(atom)
            if used & self.opaque:
                return None
            if used and not used & moving:
                kept.append((atom, scale))
            elif not used <= moving or not _countable(atom):
                return None
            else:
                rest = ops.add(rest, ops.mul(atom, scale))
        if lanes is not None:
            rest = n.Ramp(rest, lanes.stride, lanes.lanes)
        return kept, rest

    def _touched(self, index: PrimExpr, access: ThreadAccess, common: set[n.Var]) -> _Touched | None:
        """The elements that threads touch; None where they cannot be counted.
        An access is asked about many times."""
        key = (id(access), frozenset(common))
        if key not in self._known:
            self._known[key] = (access, self._count(index, access, common))  # which keeps the access, and its id
        return self._known[key][1]

    def _count(self, index: PrimExpr, access: ThreadAccess, common: set[n.Var]) -> _Touched | None:
        sizes = [self.extents.get(f"threadIdx.{axis}", 1) for axis in "zyx"]
        spread = (*sizes, 1)
        values: dict[n.Var, Array] = {}
        for var, tag in self.axes.items():
            if tag.startswith("threadIdx"):
                place = "zyx".index(tag[-1])
                shape = [1, 1, 1, 1]
                shape[place] = sizes[place]
                values[var] = np.arange(sizes[place]).reshape(shape)
        limits = [limit for c in access.conditions if (limit := self._limit(c, access, common)) is not None]
        used = free_vars(index).union(*(free_vars(limit) for limit in limits))
        for loop in access.loops:
            if loop.loop_var not in used or loop.loop_var in common:
                continue
            low, extent = ops.as_int(loop.min), ops.as_int(loop.extent)
            if low is None or extent is None or extent <= 0 or math.prod(spread) * extent > _MOST:
                return None
            count = spread[3]
            values = {v: np.repeat(x, extent, 3) if x.shape[3] == count > 1 else x for v, x in values.items()}
            values[loop.loop_var] = (low + np.tile(np.arange(extent), count)).reshape(1, 1, 1, -1)
            spread = (*sizes, count * extent)
        if not used <= values.keys():
            return None
        counted = np.asarray(_evaluate(index, values))
        lanes = counted.shape[4:]
        inside = np.ones(spread, bool)
        for limit in limits:
            inside &= np.asarray(_evaluate(limit, values)) < 0
        whole = (*spread, *lanes)
        mask = np.broadcast_to(inside.reshape(*spread, *(1 for _ in lanes)), whole)
        numbers = np.arange(math.prod(sizes)).reshape(*sizes, *(1 for _ in whole[3:]))
        return _Touched.of(np.broadcast_to(counted, whole)[mask], np.broadcast_to(numbers, whole)[mask])

    def _limit(self, condition: PrimExpr, access: ThreadAccess, common: set[n.Var]) -> PrimExpr | None:
        """Return the sum that is below 0 where `condition` holds, with common variables at their least values.
        None if that is not known."""
        match condition:
            case n.LT():
                low, high, slack = condition.a, condition.b, 0
            case n.LE():
                low, high, slack = condition.a, condition.b, 1  # a <= b as a - b - 1 < 0
            case _:
                return None
        if low.dtype not in ("int32", "int64") or high.dtype != low.dtype:
            return None
        forms = LinearForms()
        for loop in access.loops:
            first = ops.as_int(loop.min)
            forms.ranges[loop.loop_var] = ANY if first is None else (first, POS)
        forms.ranges |= dict.fromkeys(self.axes, NATURAL)
        form = forms.form(n.Sub(low, high))
        rest: PrimExpr = ops.const(form.offset - slack, low.dtype)
        moving = self._moving(access, common)
        for atom, scale in form.terms:
            used = free_vars(atom)
            if used & self.opaque:
                return None
            if not used or not used <= moving:
                least = forms.bounds(atom)[0 if scale > 0 else 1]
                if least in ANY:
                    return None
                rest = ops.add(rest, int(least) * scale)
            elif not _countable(atom):
                return None
            else:
                rest = ops.add(rest, ops.mul(atom, scale))
        return rest


def _equal(a: Sequence[tuple[PrimExpr, int]], b: Sequence[tuple[PrimExpr, int]]) -> bool:
    """Whether two lists hold the same terms."""
    return len(a) == len(b) and all(
        any(scale == other and structural_equal(x, y) for y, other in b) for x, scale in a
    )


def _countable(expr: PrimExpr) -> bool:
    match expr:
        case n.Var() | n.IntImm():
            return True
        case n.Add() | n.Sub() | n.Mul() | n.FloorDiv() | n.FloorMod() | n.Min() | n.Max():
            return _countable(expr.a) and _countable(expr.b)
        case n.Cast():
            return expr.dtype in ("int32", "int64") and _countable(expr.value)
    return False


def _evaluate(expr: PrimExpr, values: Mapping[n.Var, Array]) -> Any:
    match expr:
        case n.Var():
            return values[expr]
        case n.IntImm():
            return np.int64(expr.value)
        case n.Cast():
            return _evaluate(expr.value, values)
        case n.Ramp():
            steps = np.arange(expr.lanes) * _evaluate(expr.stride, values)
            base = np.asarray(_evaluate(expr.base, values))
            return (base if base.ndim else base.reshape(1, 1, 1, 1))[..., None] + steps
        case n.Add() | n.Sub() | n.Mul() | n.FloorDiv() | n.FloorMod() | n.Min() | n.Max():
            return _ARITHMETIC[type(expr)](_evaluate(expr.a, values), _evaluate(expr.b, values))
    raise AssertionError(f"{type(expr).__name__} is not countable")


_ARITHMETIC: dict[type, Any] = {
    n.Add: np.add, n.Sub: np.subtract, n.Mul: np.multiply, n.FloorDiv: np.floor_divide, n.FloorMod: np.mod,
    n.Min: np.minimum, n.Max: np.maximum,
}  # fmt: skip
