"""The table of the registered passes of one dialect.

By title, and by the function that each was made of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from compiler.ir.transform.config import TransformError
from compiler.ir.transform.passes import Pass, PassInfo, register_pass
from compiler.suggest import closest


class NamedPass(Protocol):
    """A dialect's entry for a pass."""

    @property
    def title(self) -> str: ...

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def info(self) -> PassInfo: ...

    @property
    def signature(self) -> inspect.Signature: ...

    def make(self, *args: Any, **kwargs: Any) -> Pass: ...


P = TypeVar("P", bound=NamedPass)


def description(entry: NamedPass) -> str:
    """Return the first paragraph of the docstring of a pass's function, on one line."""
    return " ".join((inspect.getdoc(entry.function) or "").partition("\n\n")[0].split())


class PassTable(Generic[P]):
    """Passes of a dialect. `kind` names such a pass in errors, `prefix` stands before titles there."""

    def __init__(self, kind: str, prefix: str = "") -> None:
        self._kind = kind
        self._prefix = prefix
        self._by_title: dict[str, P] = {}
        self._by_function: dict[Callable[..., Any], P] = {}

    def add(self, made: P) -> None:
        """Register a pass. Raises TransformError when its name is taken."""
        register_pass(made.info.name, made.make)
        self._by_title[made.title] = self._by_function[made.function] = made

    def all(self) -> dict[str, P]:
        """Every registered pass by its title, in order of the titles."""
        return dict(sorted(self._by_title.items()))

    def constructors(self) -> dict[str, Callable[..., Pass]]:
        """Functions that make the passes, by their titles, with their signatures and descriptions."""
        return {title: _constructor(entry) for title, entry in self.all().items()}

    def find(self, title: str) -> P:
        """Return the pass of a title.
        For an unknown title raises TransformError that names the most similar one."""
        if title not in self._by_title:
            raise TransformError(f"there is no {self._kind} {self._prefix}{title}", hint=closest(title, self._by_title))
        return self._by_title[title]

    def of(self, function: Callable[..., Any]) -> P:
        """Return the pass that a function was registered as."""
        return self._by_function[function]


def _constructor(entry: NamedPass) -> Callable[..., Pass]:
    def make(*args: object, **kwargs: object) -> Pass:
        return entry.make(*args, **kwargs)

    make.__name__ = make.__qualname__ = entry.title
    make.__doc__ = description(entry)
    make.__signature__ = entry.signature  # type: ignore[attr-defined]
    return make
