"""Bindings of a dataflow block that match a backend's patterns and may become one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.base import RelaxExpr
from compiler.ir.visit import walk
from compiler.relax.dpl.pattern import CallPattern, DFPattern, Matching
from compiler.relax.dpl.value_patterns import TupleGetItemPattern, TuplePattern, UnorderedTuplePattern
from compiler.relax.fusion.contract import Contraction
from compiler.relax.nodes import DataflowBlock, Var, VarBinding

_MEMBERS = (CallPattern, TupleGetItemPattern, TuplePattern, UnorderedTuplePattern)


@dataclass(frozen=True, eq=False, slots=True)
class PatternCheckContext:
    """The arguments of a pattern's check.

    `matched_expr` is what the whole pattern matched; `annotated_expr` is what the named patterns matched.
    `matched_bindings` has the values that would become one function, `var_usages` the variables whose values use each
    variable of the block. `value_to_bound_var` has the variable of each value of the block.
    """

    matched_expr: RelaxExpr
    annotated_expr: Mapping[str, RelaxExpr]
    matched_bindings: Mapping[Var, RelaxExpr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[RelaxExpr, Var]


@dataclass(frozen=True, eq=False, slots=True)
class FusionPattern:
    """A pattern of what a backend computes by itself, under a name such as "mine.conv2d_relu".

    `check` may refuse a match. `attrs_getter` gives attributes of the function that is made, from what the
    `annotation_patterns` matched.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[dict[str, RelaxExpr]], Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, DFPattern):
            raise ArgumentError(f"the pattern {self.name!r} is {self.pattern!r}, which is no DFPattern")
        if self.annotation_patterns is None:
            object.__setattr__(self, "annotation_patterns", {})


def as_fusion_pattern(given: FusionPattern | Sequence[Any]) -> FusionPattern:
    """Return a pattern: given as itself, or as the tuple of its fields.
    Raises ArgumentError for anything else."""
    if isinstance(given, FusionPattern):
        return given
    if isinstance(given, tuple) and 2 <= len(given) <= 5 and isinstance(given[0], str):
        return FusionPattern(*given)
    raise ArgumentError(f"{given!r} is no pattern", hint="a FusionPattern, or (name, pattern[, annotations[, check]])")


@dataclass(frozen=True, slots=True)
class Composite:
    """Bindings that a pattern matched, by their numbers in the block, in order."""

    pattern: FusionPattern
    members: tuple[int, ...]
    attrs: Mapping[str, Any]


def composites(block: DataflowBlock, patterns: Sequence[FusionPattern]) -> list[Composite]:
    """Find what the patterns match, in the order of the patterns. A binding is in at most one match.

    A match is left out if its bindings could not be computed together: something else of the block would have to come
    after some of them and before others.
    """
    return list(_composites(block, patterns))


def _composites(block: DataflowBlock, patterns: Sequence[FusionPattern]) -> Iterator[Composite]:
    values = {binding.var: binding.value for binding in block.bindings if isinstance(binding, VarBinding)}
    numbers = {id(binding.value): number for number, binding in enumerate(block.bindings)}
    names = {binding.value: binding.var for binding in block.bindings}
    usages: dict[Var, list[Var]] = {}
    for binding in block.bindings:
        for node in dict.fromkeys(walk(binding.value)):
            if isinstance(node, Var):
                usages.setdefault(node, []).append(binding.var)
    contraction = Contraction(block.bindings)
    taken: set[int] = set()
    for pattern in patterns:
        for binding in block.bindings:
            if binding.var not in values or numbers[id(binding.value)] in taken or isinstance(binding.value, Var):
                continue
            matching = Matching(values)
            for _ in matching.solve(pattern.pattern, binding.var):
                found = _matched(matching, numbers)
                if not found or taken & set(found):
                    continue
                annotated = {
                    name: matching.values[part]
                    for name, part in pattern.annotation_patterns.items()
                    if part in matching.values
                }
                held = {block.bindings[number].var: block.bindings[number].value for number in found}
                asked = PatternCheckContext(binding.value, annotated, held, usages, names)
                if pattern.check is not None and not pattern.check(asked):
                    continue
                if not contraction.join(found):
                    continue
                taken |= set(found)
                attrs = {} if pattern.attrs_getter is None else pattern.attrs_getter(dict(annotated))
                yield Composite(pattern, tuple(found), attrs)
                break


def _matched(matching: Matching, numbers: Mapping[int, int]) -> list[int]:
    """The bindings whose values patterns of calls, tuples and fields stand for."""
    found = {
        numbers[id(value)]
        for part, value in matching.values.items()
        if isinstance(part, _MEMBERS) and id(value) in numbers
    }
    return sorted(found)
