"""How indices map to other indices: the layouts of transform_layout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndexMap(Node):
    """`final_indices`, expressions in `initial_indices`: element [i, j] lies at their values."""

    DEFINES: ClassVar[tuple[str, ...]] = ("initial_indices",)

    initial_indices: tuple[n.Var, ...]
    final_indices: tuple[PrimExpr, ...]

    @staticmethod
    def from_func(mapping: Callable[..., Any], ndim: int | None = None, index_dtype: str = "int32") -> IndexMap:
        """The map of a function such as `lambda i, j: [i // 4, j, i % 4]`.
        `ndim` is how many indices a `*args` stands for. Raises IRError where that is not given."""
        names: list[str] = []
        for param in inspect.signature(mapping).parameters.values():
            if param.kind is not param.VAR_POSITIONAL:
                names.append(param.name)
            elif ndim is None:
                raise IRError(f"IndexMap.from_func: say with ndim= how many indices *{param.name} is")
            else:
                names.extend(f"{param.name}_{i}" for i in range(ndim - len(names)))
        if ndim is not None and len(names) != ndim:
            raise IRError(f"IndexMap.from_func: the function takes {len(names)} indices, {ndim} are needed")
        initial = tuple(n.Var(name, index_dtype) for name in names)
        result = mapping(*initial)
        places = result if isinstance(result, tuple | list) else (result,)
        return IndexMap(initial, tuple(map(ops.as_expr, places)))

    def map_indices(self, indices: Sequence[Any], analyzer: Analyzer | None = None) -> list[PrimExpr]:
        """Return where the element at `indices` lies, simplified with what `analyzer` knows of them.
        Raises IRError for a wrong number of them."""
        if len(indices) != len(self.initial_indices):
            raise IRError(f"{self} maps {len(self.initial_indices)} indices, {len(indices)} are given")
        given = {var: ops.cast(var.dtype, index) for var, index in zip(self.initial_indices, indices)}
        knowing = analyzer or Analyzer()
        return [knowing.simplify(substitute(place, given)) for place in self.final_indices]

    def map_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The smallest shape that holds every element of a buffer of `shape`.
        Raises IRError when that is unknown."""
        domains, analyzer = self._domains(shape)
        found = []
        for place in self.final_indices:
            high = analyzer.const_int_bound(place)[1]
            if high is not None:
                found.append(ops.const(high + 1, place.dtype))
                continue
            ends = analyzer.int_set(place, domains)
            if ends is None:
                raise IRError(f"{self}: it is not known how large {place} gets")
            found.append(analyzer.simplify(ends[1] + 1))
        return found

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Whether both map every index to the same place, as far as that can be shown."""
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        renamed = other.map_indices(self.initial_indices)
        analyzer = Analyzer()
        return len(renamed) == len(self.final_indices) and all(
            analyzer.can_prove_equal(a, b) for a, b in zip(self.final_indices, renamed)
        )

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """Return the inverse map for a buffer of constant `shape`.
        Raises IRError if two elements share a place, if a place has no element, or if the map does more than split,
        join and reorder indices."""
        back, beyond = self.non_surjective_inverse(shape)
        if not ops.is_const(beyond, 0):
            raise IRError(f"{self} has no inverse: places where {beyond} have no element")
        return back

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """Return the inverse map for a buffer of constant `shape`, and the condition of its padding.
        The condition, in the buffer's indices, is true for a place that holds no element. Raises IRError if two
        elements share a place, or if the map does more than split, join and reorder indices."""
        sizes = [ops.as_int(s) for s in shape]
        if len(sizes) != len(self.initial_indices) or any(s is None or s < 1 for s in sizes):
            raise IRError(f"{self}: inverse needs {len(self.initial_indices)} positive constant sizes")
        extents = dict(zip(self.initial_indices, (s for s in sizes if s is not None)))
        places = tuple(n.Var(f"i{k}", final.dtype) for k, final in enumerate(self.final_indices))
        digits: dict[n.Var, list[tuple[int, int, PrimExpr]]] = {var: [] for var in extents}
        analyzer = Analyzer()
        for var, extent in extents.items():
            analyzer.bind(var, (0, extent))
        beyond: list[PrimExpr] = []
        for place, final in zip(places, self.final_indices):
            beyond += self._read(place, analyzer.simplify(final), extents, digits)
        joined = {var: self._joined(var, extents[var], found) for var, found in digits.items()}
        beyond += [ops.greater_equal(joined[var], extents[var]) for var, found in digits.items()
                   if found and max(divisor * size for divisor, size, _ in found) > extents[var]]  # fmt: skip
        return IndexMap(places, tuple(joined.values())), ops.logical_or(ops.const(False), *beyond)

    def _domains(self, shape: Sequence[Any]) -> tuple[dict[n.Var, tuple[Any, Any]], Analyzer]:
        if len(shape) != len(self.initial_indices):
            raise IRError(f"{self} maps {len(self.initial_indices)} indices, the shape has {len(shape)}")
        sizes = [ops.cast(var.dtype, size) for var, size in zip(self.initial_indices, shape)]
        analyzer = Analyzer()
        for var, size in zip(self.initial_indices, sizes):
            analyzer.bind(var, n.Range(ops.const(0, var.dtype), size))
        return {var: (ops.const(0, var.dtype), size) for var, size in zip(self.initial_indices, sizes)}, analyzer

    def _read(
        self, place: n.Var, final: PrimExpr, extents: dict[n.Var, int],
        digits: dict[n.Var, list[tuple[int, int, PrimExpr]]],
    ) -> list[PrimExpr]:  # fmt: skip
        """Note which digit (divisor, size) of which index each part of the sum `final` holds, and where.
        Returns when `place` lies in a gap between the parts."""
        parts = sorted((self._digit(term, extents) for term in _terms(final)), key=lambda part: part[0])
        first = parts[0][0] if parts else 1
        gaps: list[PrimExpr] = [ops.not_equal(ops.floormod(place, first), 0)] if first > 1 else []
        for (factor, var, divisor, size), following in zip(parts, [*(part[0] for part in parts[1:]), None]):
            value: PrimExpr = place if factor == 1 else ops.floordiv(place, factor)
            if following is not None:
                room = following // factor
                if following % factor or room < size:
                    raise IRError(f"{self} has no inverse: the parts of {final} overlap or are no multiples of others")
                value = ops.floormod(value, room)
                if room > size:
                    gaps.append(ops.greater_equal(value, size))
            digits[var].append((divisor, size, value))
        return gaps

    def _digit(self, term: PrimExpr, extents: dict[n.Var, int]) -> tuple[int, n.Var, int, int]:
        """`term` as (factor, index, divisor, size): factor * (index // divisor % size)."""
        if isinstance(term, n.Mul) and isinstance(term.b, n.IntImm):
            return term.b.value, *self._part(term.a, extents)
        return 1, *self._part(term, extents)

    def _part(self, term: PrimExpr, extents: dict[n.Var, int]) -> tuple[n.Var, int, int]:
        match term:
            case n.Var() if term in extents:
                return term, 1, extents[term]
            case n.FloorMod(inner, n.IntImm(value=modulus)):
                var, divisor, size = self._part(inner, extents)
                return var, divisor, min(size, modulus)
            case n.FloorDiv(inner, n.IntImm(value=step)):
                var, divisor, size = self._part(inner, extents)
                return var, divisor * step, -(-size // step)
        raise IRError(f"{self} has no inverse that can be found: {term} is no index, nor a part of one")

    def _joined(self, var: n.Var, extent: int, found: list[tuple[int, int, PrimExpr]]) -> PrimExpr:
        """The index whose digits are `found`."""
        found = sorted(found, key=lambda digit: digit[0])
        steps = [divisor for divisor, _, _ in found] + [extent]
        if (not found and extent > 1) or (found and steps[0] != 1):
            raise IRError(f"{self} has no inverse: {var.name} is lost")
        for at, ((divisor, size, _), following) in enumerate(zip(found, steps[1:]), 1):
            if divisor * size != following and (at < len(found) or divisor * size < extent):
                raise IRError(f"{self} has no inverse over {extent} values of {var.name}: its parts do not make it up")
        total: PrimExpr = ops.const(0, var.dtype)
        for divisor, _, value in reversed(found):
            total = ops.add(total, ops.mul(value, divisor))
        return total

    def __repr__(self) -> str:
        names = ", ".join(var.name for var in self.initial_indices)
        return f"IndexMap(lambda {names}: [{', '.join(map(repr, self.final_indices))}])"


def _terms(expr: PrimExpr) -> list[PrimExpr]:
    if isinstance(expr, n.Add):
        return [*_terms(expr.a), *_terms(expr.b)]
    return [] if isinstance(expr, n.IntImm) and expr.value == 0 else [expr]
