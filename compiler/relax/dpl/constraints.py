"""Which pattern's value another one uses: the constraints in patterns of whole graphs."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.errors import ArgumentError

if TYPE_CHECKING:
    from compiler.relax.dpl.pattern import DFPattern

ANY_ARGUMENT = -1


@dataclass(frozen=True, slots=True)
class UseConstraint:
    """The value of `producer` is an argument of `consumer`: number `index`, or any for -1.

    With `only`, nothing else uses it.
    """

    producer: DFPattern
    consumer: DFPattern
    index: int = ANY_ARGUMENT
    only: bool = False


@dataclass(eq=False, slots=True)
class Constraints:
    """The constraints on a match: the uses between patterns, and patterns whose values have one shape."""

    uses: list[UseConstraint] = field(default_factory=list)
    same_shapes: list[tuple[DFPattern, ...]] = field(default_factory=list)

    def copy(self) -> Constraints:
        return Constraints(list(self.uses), list(self.same_shapes))

    def patterns(self) -> list[DFPattern]:
        """The patterns that uses connect, each once, in order."""
        return list(dict.fromkeys(end for use in self.uses for end in (use.producer, use.consumer)))


_open: ContextVar[tuple[Constraints, ...]] = ContextVar("relax.dpl.constraints", default=())


def current() -> Constraints | None:
    """The constraints of the innermost `with PatternContext()`; None outside of any."""
    stack = _open.get()
    return stack[-1] if stack else None


def enter(constraints: Constraints) -> None:
    """Add what is written from now on to `constraints`."""
    _open.set((*_open.get(), constraints))


def leave() -> None:
    """End the latest `enter`."""
    _open.set(_open.get()[:-1])


class PatternSeq:
    """Patterns each of which uses the value of the one before: `a >> b`, `a ^ b`."""

    __slots__ = ("only_use", "patterns")

    def __init__(self, patterns: Sequence[DFPattern], only_use: bool = False) -> None:
        """The sequence of `patterns`. With `only_use` each is used by nothing but the next."""
        self.patterns = tuple(patterns)
        self.only_use = only_use
        if not self.patterns:
            raise ArgumentError("a sequence of patterns has at least one")
        for first, second in zip(self.patterns, self.patterns[1:]):
            _note(UseConstraint(first, second, ANY_ARGUMENT, only_use))

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def __len__(self) -> int:
        return len(self.patterns)

    def __repr__(self) -> str:
        return (
            f"[{' >> '.join(map(repr, self.patterns))}]"
            if self.only_use
            else f"[{' ^ '.join(map(repr, self.patterns))}]"
        )

    def used_by(self, other: DFPattern | PatternSeq, index: int = ANY_ARGUMENT) -> PatternSeq:
        """Say that the first of `other` uses the value of the last of this, as argument `index`; -1 for any."""
        return chained(self, other, index, only=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = ANY_ARGUMENT) -> PatternSeq:
        """Say that the first of `other`, and nothing else, uses the value of the last of this."""
        return chained(self, other, index, only=True)

    def dup(self) -> PatternSeq:
        """The same sequence of new patterns, which match independently of these."""
        return PatternSeq([pattern.dup() for pattern in self.patterns], self.only_use)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)


def chained(first: PatternSeq, second: DFPattern | PatternSeq, index: int, only: bool) -> PatternSeq:
    """Join both sequences. The constraint between them is added to the open context."""
    after = second.patterns if isinstance(second, PatternSeq) else (second,)
    _note(UseConstraint(first.patterns[-1], after[0], index, only))
    made = object.__new__(PatternSeq)
    made.patterns, made.only_use = (*first.patterns, *after), only
    return made


def _note(use: UseConstraint) -> None:
    constraints = current()
    if constraints is not None and use not in constraints.uses:
        constraints.uses.append(use)
