"""The names a script knows at one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_MISSING = object()


class Scope:
    """Names and what they stand for, innermost block first.
    `captured` are those of the code around the script."""

    def __init__(self, captured: Mapping[str, Any]) -> None:
        self._captured = captured
        self._blocks: list[dict[str, Any]] = [{}]

    def define(self, name: str, value: Any) -> None:
        """Give `name` a meaning until the block at hand ends."""
        self._blocks[-1][name] = value

    def define_outermost(self, name: str, value: Any) -> None:
        """Give `name` a meaning for the whole script."""
        self._blocks[0][name] = value

    def find(self, name: str, default: Any = _MISSING) -> Any:
        """Return what `name` stands for. Raises KeyError when that is nothing and no default is given."""
        for block in reversed(self._blocks):
            if name in block:
                return block[name]
        value = self._captured.get(name, default)
        if value is _MISSING:
            raise KeyError(name)
        return value

    def names(self) -> list[str]:
        """Every name the script itself defined."""
        return [name for block in self._blocks for name in block]

    @contextmanager
    def block(self) -> Iterator[dict[str, Any]]:
        """Open a block: names defined inside are forgotten at its end. Gives these names as they are defined."""
        self._blocks.append({})
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()
