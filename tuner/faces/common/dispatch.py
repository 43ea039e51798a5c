"""Contexts for builds of templates and workloads.

They nest, and hold the best records of logs by target.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, Token
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from compiler.target.target import Target

T = TypeVar("T")
Pair = TypeVar("Pair", bound=tuple[Any, Any])


class _Innermost(ABCMeta):
    """Gives a face's contexts `current`: the innermost one of this thread (or task)."""

    innermost: ContextVar[Any]

    @property
    def current(cls) -> Any:
        return cls.innermost.get()


class NestedContext(metaclass=_Innermost):
    """A context that is asked within `with`, before those around it.
    Each face has an `innermost` of its own."""

    innermost: ClassVar[ContextVar[Any]]

    def __init__(self) -> None:
        self._entered: list[tuple[Self, Token[Any]]] = []

    @property
    def around(self) -> Self | None:
        """The context that this one was entered in, None outside of any `with`."""
        return self._entered[-1][0] if self._entered else None

    def __enter__(self) -> Self:
        innermost = type(self).innermost
        self._entered.append((innermost.get(), innermost.set(self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        type(self).innermost.reset(self._entered.pop()[1])


class HistoryTables(Generic[T]):
    """Tables of the best on record: by a target's text, by its `-model`, and by its keys (`cpu`, …)."""

    def __init__(self, empty: Callable[[], T]) -> None:
        self.by_target, self.by_model, self.by_key = empty(), empty(), empty()

    @staticmethod
    def names(target: Target) -> tuple[str, ...]:
        """Return all names of a target, the most exact first."""
        return (str(target), *_model(target), *target.keys)

    def places(self, target: Target) -> Iterator[tuple[T, str]]:
        """Yield the tables that a record of `target` belongs in, and its name there: the most exact first."""
        for table, names in (
            (self.by_target, (str(target),)),
            (self.by_model, _model(target)),
            (self.by_key, target.keys),
        ):
            yield from ((table, name) for name in names)


def _model(target: Target) -> tuple[str, ...]:
    return () if target.model in ("", "unknown") else (target.model,)


def pairs_in(
    records: Any, read: Callable[[Any], Iterable[Pair]], inputs: type, most: int | None = None
) -> Iterator[Pair]:
    """Yield the (input, result) pairs of logs and iterables: of each, at most the first `most`.

    `records` is a log (a path or an open file, which `read` takes), an iterable of pairs, or one of several of these.
    A pair is known by its first part, which is one of `inputs`.
    """
    if isinstance(records, str | bytes | Path) or hasattr(records, "read"):
        yield from islice(read(records), most)
        return
    taken = 0
    for item in records:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], inputs):
            if most is None or taken < most:
                yield item  # type: ignore[misc]
            taken += 1
        else:
            yield from pairs_in(item, read, inputs, most)
