"""Tags for all stages that are computed at one place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self

from compiler.errors import IRError

_current: ContextVar[str] = ContextVar("tag", default="")


class TagScope:
    """Tag the stages computed inside a `with` block, or inside a decorated function."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._token: Token[str] | None = None

    def __enter__(self) -> Self:
        if _current.get():
            raise IRError(f"a tag scope {self.tag!r} inside another, of {_current.get()!r}")
        self._token = _current.set(self.tag)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with TagScope(self.tag):
                return function(*args, **kwargs)

        return tagged


def tag_scope(tag: str) -> TagScope:
    """`with tag_scope("conv"):` or `@tag_scope("conv")`: what is computed inside has the tag."""
    return TagScope(tag)


def chosen(tag: str) -> str:
    """Return the tag of a new stage: its own, else that of the enclosing scope.
    Raises IRError where there are both."""
    around = _current.get()
    if tag and around:
        raise IRError(
            f"a stage has the tag {tag!r}, and stands in a tag scope {around!r}", hint="leave one of them out"
        )
    return tag or around
