"""Random variables: the names a trace gives to blocks, loops and integers.

A trace is replayed on another copy of a function and with other decisions, so its steps cannot hold the loops
themselves. They hold these names, and a `State` maps each to its current value.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TypeVar

from compiler.errors import ScheduleError

_unnamed = itertools.count(1_000_000)  # beyond the numbers that a schedule gives


def _fresh() -> int:
    """A number for a variable of a trace that is written by hand."""
    return next(_unnamed)


@dataclass(frozen=True, slots=True)
class BlockRV:
    """A block."""

    id: int = field(default_factory=_fresh)

    def __str__(self) -> str:
        return f"b{self.id}"


@dataclass(frozen=True, slots=True)
class LoopRV:
    """A loop."""

    id: int = field(default_factory=_fresh)

    def __str__(self) -> str:
        return f"l{self.id}"


@dataclass(frozen=True, slots=True)
class ExprRV:
    """An integer that a sampling step decided."""

    id: int = field(default_factory=_fresh)

    def __str__(self) -> str:
        return f"v{self.id}"


Block = BlockRV | str  # a block, or its name
RV = BlockRV | LoopRV | ExprRV

_BY_LETTER: dict[str, type[BlockRV] | type[LoopRV] | type[ExprRV]] = {"b": BlockRV, "l": LoopRV, "v": ExprRV}
_NAME = re.compile(r"([blv])(0|[1-9][0-9]{0,6})")


def parse_rv(text: str) -> RV:
    """The variable whose `str` is `text`. Raises ScheduleError when there is none."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise ScheduleError(f"trace: {text[:40]!r} names no block (b0), loop (l0) or value (v0)")
    return _BY_LETTER[found[1]](int(found[2]))


T = TypeVar("T", BlockRV, LoopRV, ExprRV)


def one_of(kind: type[T], outputs: tuple[RV, ...]) -> T:
    """The one result of a step, which is of `kind`."""
    [rv] = all_of(kind, outputs)
    return rv


def all_of(kind: type[T], outputs: tuple[RV, ...]) -> list[T]:
    """The results of a step, which are of `kind`."""
    return [rv for rv in outputs if isinstance(rv, kind)]
