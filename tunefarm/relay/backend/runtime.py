"""The runtime that programs say a module is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import TargetError

__all__ = ["Runtime"]


@dataclass(frozen=True)
class Runtime:
    """A runtime by name.

    Modules run in tunefarm's own, which "cpp" stands for; its options change nothing.

    Raises TargetError for another runtime.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name != "cpp":
            raise TargetError(f"there is no runtime {self.name!r}", hint='the runtime is "cpp"')

    def __str__(self) -> str:
        return self.name
