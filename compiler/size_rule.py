"""Rules that pick one of several kernels by the sizes of a call, as plain data.

A rule has a table of measured sizes, and a tree of tests for all others. A test compares an expression over the sizes
(see `compiler.extents`), such as "M" or "M % 16", with a number. A pick is a kernel's place in a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import ArtifactError
from compiler.extents import parse_extent

MOST_TESTS = 256
MOST_SIZES = 4096

Size = tuple[int, ...]
"""Values of a rule's symbols, in their order."""


@dataclass(frozen=True)
class SizeTest:
    """Go to `low` where `value` is at most `limit`, else to `high`."""

    value: str
    limit: int
    low: Tree
    high: Tree


Tree = SizeTest | int
"""A test, or a pick."""


@dataclass(frozen=True)
class SizeRule:
    """`known` has the pick of each measured size, `tree` that of all others.
    Raises ArtifactError for a rule that names other variables than its symbols, has sizes of another length, or is too
    large."""

    symbols: tuple[str, ...]
    known: Mapping[Size, int]
    tree: Tree

    def __post_init__(self) -> None:
        if not self.symbols or len(set(self.symbols)) != len(self.symbols):
            raise ArtifactError(f"a rule's symbols are different names, not {self.symbols}")
        if len(self.known) > MOST_SIZES:
            raise ArtifactError(f"a rule of {len(self.known)} sizes is more than the {MOST_SIZES} allowed")
        for size in self.known:
            if len(size) != len(self.symbols):
                raise ArtifactError(f"a rule over {', '.join(self.symbols)} has the size {size}")
        tests = tests_of(self.tree)
        if len(tests) > MOST_TESTS:
            raise ArtifactError(f"a rule of {len(tests)} tests is more than the {MOST_TESTS} allowed")
        for test in tests:
            if unknown := sorted(parse_extent(test.value).names - set(self.symbols)):
                raise ArtifactError(f"a rule over {', '.join(self.symbols)} tests {unknown[0]}")

    @property
    def picks(self) -> frozenset[int]:
        """Every kernel that some size leads to."""
        return frozenset(self.known.values()) | frozenset(leaves_of(self.tree))

    def pick(self, size: Sequence[int]) -> int:
        """The kernel for these sizes."""
        found = self.known.get(tuple(size))
        return walk(self.tree, dict(zip(self.symbols, size, strict=True)))[0] if found is None else found

    def to_json(self) -> dict[str, Any]:
        known = [[list(size), pick] for size, pick in sorted(self.known.items())]
        return {"symbols": list(self.symbols), "known": known, "tree": _tree_json(self.tree)}

    @staticmethod
    def from_json(data: object) -> SizeRule:
        """The inverse of `to_json`. Raises ArtifactError for anything else."""
        match data:
            case {"symbols": list(symbols), "known": list(known), "tree": tree}:
                return SizeRule(tuple(map(str, symbols)), dict(map(_known, known)), _tree(tree, MOST_TESTS))
        raise ArtifactError(f"{str(data)[:80]!r} is no rule")


def walk(tree: Tree, sizes: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
    """The pick for these sizes, and the tests that held on the way, as text."""
    path = []
    while isinstance(tree, SizeTest):
        is_low = parse_extent(tree.value).value(sizes) <= tree.limit
        path.append(f"{tree.value} {'<=' if is_low else '>'} {tree.limit}")
        tree = tree.low if is_low else tree.high
    return tree, tuple(path)


def tests_of(tree: Tree) -> tuple[SizeTest, ...]:
    """Every test of a tree."""
    return (tree, *tests_of(tree.low), *tests_of(tree.high)) if isinstance(tree, SizeTest) else ()


def leaves_of(tree: Tree) -> tuple[int, ...]:
    """Every pick of a tree, from low to high."""
    return (*leaves_of(tree.low), *leaves_of(tree.high)) if isinstance(tree, SizeTest) else (tree,)


def _tree_json(tree: Tree) -> Any:
    if not isinstance(tree, SizeTest):
        return tree
    return {"value": tree.value, "limit": tree.limit, "low": _tree_json(tree.low), "high": _tree_json(tree.high)}


def _tree(data: object, depth: int) -> Tree:
    match data:
        case bool():
            pass
        case int():
            return data
        case {"value": str(value), "limit": int(limit), "low": low, "high": high} if depth:
            return SizeTest(value, limit, _tree(low, depth - 1), _tree(high, depth - 1))
    raise ArtifactError(f"{str(data)[:80]!r} is no tree of tests")


def _known(data: object) -> tuple[Size, int]:
    match data:
        case [list(size), int(pick)] if all(type(extent) is int for extent in size):
            return tuple(size), pick
    raise ArtifactError(f"{str(data)[:80]!r} is no size with its pick")
