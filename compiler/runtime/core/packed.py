"""Packed functions, called with positional arguments of any kind. Modules and the registry hold them."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from compiler.errors import ArgumentError


class PackedFunc(ABC):
    """A function that is called with arrays, numbers, strings and objects, wherever its code is.

    A module's functions are packed ones that write their outputs into their arguments; `PackedFunc(f)` makes one
    of a Python function.
    """

    name: str

    def __new__(cls, *args: Any, **kwargs: Any) -> PackedFunc:
        return super().__new__(PythonFunction if cls is PackedFunc else cls)

    @abstractmethod
    def __call__(self, *args: Any) -> Any:
        """Check the arguments and run. Raises ArgumentError naming one that does not fit."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class PythonFunction(PackedFunc):
    """A Python function as a packed function. It keeps the function's name and documentation.

    Arguments and results go through as they are. Raises ArgumentError for what cannot be called.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentError(
                f"a packed function is made of a Python function, not of {function!r}",
                hint='`module["name"]` and `get_global_func(name)` give those that there are',
            )
        functools.update_wrapper(self, function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def packed(function: Callable[..., Any]) -> PackedFunc:
    """Return `function` itself if it is packed, else a packed function made of it."""
    return function if isinstance(function, PackedFunc) else PythonFunction(function)
