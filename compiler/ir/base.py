"""The base of all IR nodes, source spans, operators and global names.

A node class of any dialect says once, on the class, what it is made of:

- `CHILDREN`: the fields that hold child nodes (a node, None, or a tuple of them);
- `DEFINES`: the fields that hold the symbols it defines, as "loop_var", or "iter_vars.var" for a part of each item;
- `CARRIER`: whether it only carries nodes, such as a range: its children count as those of the node that holds it.

Visiting (`compiler.ir.visit`), comparing and hashing (`compiler.ir.structural`) read these, so they need to know no
dialect. How nodes are printed is registered with `compiler.ir.text`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from compiler.errors import IRError


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

    Use `structural_equal` and `structural_hash` to compare meaning. A subclass is a frozen dataclass.
    """

    __slots__ = ()

    CHILDREN: ClassVar[tuple[str, ...]] = ()
    DEFINES: ClassVar[tuple[str, ...]] = ()
    CARRIER: ClassVar[bool] = False
    UNCOMPARED: ClassVar[frozenset[str]] = frozenset({"span", "name", "name_hint"})
    """Fields that say nothing about the meaning: comparing and hashing leave them out."""
    BY_IDENTITY: ClassVar[frozenset[str]] = frozenset()
    """Fields whose values are the same only if they are one object."""

    def same_as(self, other: object) -> bool:
        """True when `other` is this very node."""
        return self is other

    def definitions(self) -> Iterator[Symbol]:
        """Return the symbols that this node defines, in a fixed order, as `DEFINES` names them."""
        for path in self.DEFINES:
            name, _, part = path.partition(".")
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else () if value is None else (value,):
                yield getattr(item, part) if part else item


class Symbol(Node):
    """A node that is compared by identity, such as a variable or a buffer.

    Two functions may use different symbols in the same places; comparing pairs a symbol with its counterpart where
    both sides define one. The methods say when two of a class may be paired.
    """

    __slots__ = ()

    VIEW: ClassVar[bool] = False
    """Whether a symbol that nothing defines is known by its parts, as an undeclared view of known memory is."""
    LETTER: ClassVar[str] = "v"
    """How its name begins in texts without names."""

    def hint(self) -> str:
        """The name it would like to have in a text."""
        return str(getattr(self, "name", None) or getattr(self, "name_hint", ""))

    def traits(self) -> tuple[Any, ...]:
        """Return plain values that corresponding symbols have in common, such as the dtype."""
        return ()

    def may_stand_for(self, other: Symbol) -> bool:
        """Whether the two may correspond, judged by class and traits."""
        return type(self) is type(other) and self.traits() == other.traits()

    def parts(self) -> tuple[Any, ...]:
        """Return IR that has the same structure in corresponding symbols, such as the shape."""
        return ()

    def introduces(self) -> tuple[Symbol, ...]:
        """Return the symbols that this one defines along with itself, such as sizes of a shape.
        Symbols that are known already are left out."""
        return ()


class RelaxExpr(Node):
    """Base of expressions whose values are no scalars: tensors, shapes, tuples, functions, operators."""

    __slots__ = ()


class UnknownOperatorError(IRError, KeyError, kind="unknown_operator"):
    """A name that no operator has."""


@dataclass(frozen=True, slots=True, eq=False)
class Op(RelaxExpr):
    """A named operator that `Call` nodes apply, for example `tir.exp`. One object per name.

    `pure` is False for operators with a side effect (they may not be removed, copied or reordered).
    """

    name: str
    pure: bool = True

    _registry: ClassVar[dict[str, Op]] = {}

    @staticmethod
    def get(name: str) -> Op:
        """The operator called `name`. Raises KeyError when there is none."""
        found = Op._registry.get(name)
        if found is None:
            raise UnknownOperatorError(f"there is no operator {name!r}")
        return found

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
class GlobalVar(RelaxExpr):
    """The name of a function in an `IRModule`. Equal when the names are.

    `struct_info_` is what a graph knows of the function: what it takes and what it returns.
    """

    name_hint: str
    struct_info_: Any = field(default=None, init=False, compare=False, repr=False)

    def __str__(self) -> str:
        return f"@{self.name_hint}"
