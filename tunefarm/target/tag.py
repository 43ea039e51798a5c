"""Targets by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.target import tags
from compiler.target.target import Target

__all__ = ["list_tags", "register_tag"]


class _Tags(Mapping[str, Target]):
    """The tags with their targets, each made when it is asked for."""

    def __getitem__(self, tag: str) -> Target:
        if tag not in tags.list_tags():
            raise KeyError(tag)
        return Target(tag)

    def __iter__(self) -> Iterator[str]:
        return iter(tags.list_tags())

    def __len__(self) -> int:
        return len(tags.list_tags())


def list_tags() -> Mapping[str, Target]:
    """Every tag with the target it stands for."""
    return _Tags()


def register_tag(name: str, config: Mapping[str, Any], override: bool = False) -> Target:
    """Give a target, as data with "kind", a name with a "/", and return it. Raises TargetError when it is taken."""
    tags.register_tag(name, config, override)
    return Target(name)
