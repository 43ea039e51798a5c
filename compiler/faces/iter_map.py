"""Index expressions as sums of parts of iterators, under Apache TVM's names.

An index such as (x * 8 + y) // 4 is taken apart: it is a part of one iterator of 128 values, the sum. Sums must be
dense: each part's step is the number of values of those below it. Sizes and factors are constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import free_vars


class IterMapLevel(IntEnum):
    """Require a kind of mapping from iterators to indices.

    It is one to one up to steps and an offset, onto the outputs, or of independent parts.
    """

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel:
        """Return the level of a name. Raises IRError."""
        for level in IterMapLevel:
            if level.name.lower() == name.lower():
                return level
        raise IRError(f"there is no level {name!r}", hint="bijective, surjective and nocheck are")


@dataclass(frozen=True, eq=False)
class IterMark:
    """An iterator of `extent` values from 0 on: a variable, or a dense sum of parts."""

    source: PrimExpr | IterSumExpr
    extent: int


@dataclass(frozen=True, eq=False)
class IterSplitExpr:
    """(source // lower_factor) % extent * scale."""

    source: IterMark
    lower_factor: int
    extent: int
    scale: int


@dataclass(frozen=True, eq=False)
class IterSumExpr:
    """The sum of parts and a number."""

    args: tuple[IterSplitExpr, ...]
    base: int


@dataclass(frozen=True)
class IterMapResult:
    """The result of the search: an expression for each index, or none and why."""

    indices: tuple[IterSumExpr, ...] = ()
    errors: tuple[str, ...] = ()
    padding_predicate: PrimExpr = field(default_factory=lambda: ops.const(False))


class _NotDetected(Exception):
    """An index that is no sum of parts of iterators."""


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[n.Var, n.Range],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | str | int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Take indices apart. Without a finding the result has no indices, and says why.

    Predicates other than True, sizes that are no constants and parts that do not divide a size are not taken apart.
    """
    level = IterMapLevel.from_str(check_level) if isinstance(check_level, str) else IterMapLevel(check_level)
    if not (predicate is True or (isinstance(predicate, n.IntImm) and predicate.value)):
        return IterMapResult(errors=("a predicate is not taken apart here",))
    reader = _Reader(input_iters, simplify_trivial_iterators)
    try:
        found = tuple(reader.fused(reader.read(ops.as_expr(index))) for index in indices)
        reader.check(found, level)
    except _NotDetected as error:
        return IterMapResult(errors=(str(error),))
    return IterMapResult(found)


def normalize_iter_map_to_expr(expr: IterSumExpr | IterSplitExpr) -> PrimExpr:
    """Return what a finding stands for, as an expression of the variables."""
    if isinstance(expr, IterSumExpr):
        total: PrimExpr = ops.const(expr.base)
        for part in expr.args:
            total = ops.add(total, normalize_iter_map_to_expr(part))
        return Analyzer().simplify(total)
    mark = expr.source
    value = mark.source if isinstance(mark.source, PrimExpr) else normalize_iter_map_to_expr(mark.source)
    if expr.lower_factor != 1:
        value = ops.floordiv(value, expr.lower_factor)
    if expr.lower_factor * expr.extent != mark.extent:
        value = ops.floormod(value, expr.extent)
    return ops.mul(value, expr.scale)


iter_map_to_expr = normalize_iter_map_to_expr


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[n.Var, n.Range],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[PrimExpr]:
    """Return indices as sums of parts of the iterators; those that are none are only simplified."""
    level = IterMapLevel.from_str(check_level) if isinstance(check_level, str) else check_level
    found = detect_iter_map(indices, input_iters, predicate, level, simplify_trivial_iterators)
    analyzer = Analyzer()
    for var, dom in input_iters.items():
        analyzer.bind(var, dom)
    exprs = [normalize_iter_map_to_expr(index) for index in found.indices] if found.indices else indices
    return [analyzer.simplify(index) for index in exprs]


class _Reader:
    def __init__(self, iters: Mapping[n.Var, n.Range], drops_units: bool) -> None:
        self._starts: dict[n.Var, int] = {}
        self._marks: dict[n.Var, IterMark] = {}
        self._fused: dict[tuple[tuple[int, int, int, int], ...], IterMark] = {}
        self._drops_units = drops_units
        for var, dom in iters.items():
            low, extent = ops.as_int(dom.min), ops.as_int(dom.extent)
            if low is not None and extent is not None and extent > 0:
                self._starts[var], self._marks[var] = low, IterMark(var, extent)

    def read(self, expr: PrimExpr) -> IterSumExpr:
        match expr:
            case n.IntImm(value=value):
                return IterSumExpr((), value)
            case n.Var() if expr in self._marks:
                mark = self._marks[expr]
                unit = self._drops_units and mark.extent == 1
                return IterSumExpr(() if unit else (IterSplitExpr(mark, 1, mark.extent, 1),), self._starts[expr])
            case n.Add(a=a, b=b):
                left, right = self.read(a), self.read(b)
                return self._added((*left.args, *right.args), left.base + right.base)
            case n.Sub(a=a, b=b):
                return self.read(n.Add(a, ops.mul(b, -1))) if not isinstance(b, n.IntImm) else self._less(a, b.value)
            case n.Mul(a=a, b=n.IntImm(value=factor)) | n.Mul(a=n.IntImm(value=factor), b=a):
                inner = self.read(a)
                scaled = [replace(part, scale=part.scale * factor) for part in inner.args]
                return self._added(scaled, inner.base * factor)
            case n.FloorDiv(a=a, b=n.IntImm(value=factor)) if factor > 0:
                return self._divided(self.read(a), factor)[0]
            case n.FloorMod(a=a, b=n.IntImm(value=factor)) if factor > 0:
                return self._divided(self.read(a), factor)[1]
        if free_vars(expr).isdisjoint(self._marks):
            raise _NotDetected(f"{expr} is no constant")
        raise _NotDetected(f"{expr} is no sum of parts of iterators")

    def _less(self, a: PrimExpr, value: int) -> IterSumExpr:
        inner = self.read(a)
        return replace(inner, base=inner.base - value)

    def _added(self, parts: Sequence[IterSplitExpr], base: int) -> IterSumExpr:
        """Parts of one iterator that are alike are added up."""
        scales: dict[tuple[int, int, int], IterSplitExpr] = {}
        for part in parts:
            key = id(part.source), part.lower_factor, part.extent
            known = scales.get(key)
            scales[key] = part if known is None else replace(part, scale=known.scale + part.scale)
        return IterSumExpr(tuple(part for part in scales.values() if part.scale), base)

    def fused(self, total: IterSumExpr) -> IterSumExpr:
        """The sum as one part of an iterator of its own, where it has several parts."""
        if len(total.args) < 2:
            return total
        parts = sorted(total.args, key=lambda part: part.scale)
        lowest = parts[0].scale
        expected = lowest
        if lowest <= 0:
            raise _NotDetected("an iterator with a negative factor is not taken apart")
        for part in parts:
            if part.scale != expected:
                raise _NotDetected("Could not normalize iterators")
            expected *= part.extent
        key = tuple((id(part.source), part.lower_factor, part.extent, part.scale // lowest) for part in parts)
        mark = self._fused.get(key)
        if mark is None:
            inner = tuple(replace(part, scale=part.scale // lowest) for part in reversed(parts))
            mark = self._fused[key] = IterMark(IterSumExpr(inner, 0), expected // lowest)
        return IterSumExpr((IterSplitExpr(mark, 1, mark.extent, lowest),), total.base)

    def _divided(self, total: IterSumExpr, factor: int) -> tuple[IterSumExpr, IterSumExpr]:
        """Quotient and remainder."""
        whole = self.fused(total)
        if not whole.args:
            return IterSumExpr((), whole.base // factor), IterSumExpr((), whole.base % factor)
        (part,) = whole.args
        if whole.base % factor and part.scale % factor:
            raise _NotDetected("an offset does not divide")
        if part.scale % factor == 0:
            inner = (replace(part, scale=part.scale // factor),)
            return IterSumExpr(inner, whole.base // factor), IterSumExpr((), whole.base % factor)
        if factor % part.scale:
            raise _NotDetected(f"a factor of {part.scale} does not divide {factor}")
        step = factor // part.scale
        if part.extent <= step:
            return IterSumExpr((), whole.base // factor), IterSumExpr((part,), 0)
        if part.extent % step:
            raise _NotDetected(f"{step} does not divide a size of {part.extent}")
        high = IterSplitExpr(part.source, part.lower_factor * step, part.extent // step, 1)
        low = IterSplitExpr(part.source, part.lower_factor, step, part.scale)
        return IterSumExpr((high,), whole.base // factor), IterSumExpr((low,), 0)

    # ------------------------------------------------------------------------------ the mapping

    def check(self, found: Sequence[IterSumExpr], level: IterMapLevel) -> None:
        """Raise _NotDetected where the indices are not what the level asks for."""
        bijective = level is IterMapLevel.Bijective
        seen: set[n.Var] = set()
        parts: dict[IterMark, list[IterSplitExpr]] = {}
        for total in found:
            for part in total.args:
                parts.setdefault(part.source, []).append(part)
        while parts:
            mark = next(iter(sorted(parts, key=lambda m: -_depth(m))))
            self._check_mark(mark, parts.pop(mark), bijective)
            if isinstance(mark.source, IterSumExpr):
                for inner in mark.source.args:
                    parts.setdefault(inner.source, []).append(inner)
            else:
                seen |= free_vars(mark.source)
        if bijective and any(mark.extent > 1 and var not in seen for var, mark in self._marks.items()):
            raise _NotDetected("Index mapping does not form a bijective transform.")

    def _check_mark(self, mark: IterMark, parts: Sequence[IterSplitExpr], bijective: bool) -> None:
        expected = 1
        for part in sorted(parts, key=lambda item: item.lower_factor):
            if part.lower_factor < expected or part.lower_factor % expected:
                raise _NotDetected("Mapped indices are not independent.")
            if bijective and part.lower_factor != expected:
                raise _NotDetected("Index mapping does not form a bijective transform.")
            expected = part.lower_factor * part.extent
        if bijective and expected != mark.extent:
            raise _NotDetected("Index mapping does not form a bijective transform.")


def _depth(mark: IterMark) -> int:
    return (
        1 + max((_depth(part.source) for part in mark.source.args), default=0)
        if isinstance(mark.source, IterSumExpr)
        else 0
    )
