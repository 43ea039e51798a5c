"""The base of all IR nodes, source spans, operators and global names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Span:
    """Where a node was written: a file, a line and a column, both counted from 1."""

    source: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


class Node:
    """Base of IR nodes. Nodes are immutable and compared by identity.

    Use `structural_equal` and `structural_hash` to compare meaning.
    """

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """True when `other` is this very node."""
        return self is other


@dataclass(frozen=True, slots=True, eq=False)
class Op(Node):
    """A named operator that `Call` nodes apply, for example `tir.exp`. One object per name.

    `pure` is False for operators with a side effect (they may not be removed, copied or reordered).
    """

    name: str
    pure: bool = True

    _registry: ClassVar[dict[str, Op]] = {}

    @staticmethod
    def get(name: str) -> Op:
        """The operator called `name`. Raises KeyError when there is none."""
        return Op._registry[name]

    @staticmethod
    def register(name: str, *, pure: bool = True) -> Op:
        """The operator called `name`, made on first use."""
        op = Op._registry.get(name)
        if op is None:
            op = Op._registry[name] = Op(name, pure)
        return op

    @staticmethod
    def names(prefix: str) -> list[str]:
        """The names of the operators that begin with `prefix`, without it, in order."""
        return sorted(name.removeprefix(prefix) for name in Op._registry if name.startswith(prefix))

    def __reduce__(self) -> tuple[object, ...]:
        return Op.register, (self.name,)


@dataclass(frozen=True, slots=True)
class GlobalVar(Node):
    """The name of a function in an `IRModule`. Equal when the names are."""

    name_hint: str

    def __str__(self) -> str:
        return f"@{self.name_hint}"
