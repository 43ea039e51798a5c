"""Functions of the registry as values of the IR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.driver.objects import Object
from compiler.runtime.core.registry import get_global_func

__all__ = ["EnvFunc"]


@dataclass(frozen=True)
class EnvFunc(Object):
    """A registered function that is known by its name, looked up when and where it is called."""

    name: str

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The registered function of a name. Raises ValueError where there is none."""
        get_global_func(name)
        return EnvFunc(name)

    @property
    def func(self) -> Any:
        """The function that is registered now."""
        return get_global_func(self.name)

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        return self.func(*args)
