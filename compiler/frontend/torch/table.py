"""The table of converters: which function turns which operator of torch into relax.

A converter is a function of a `Conversion` and of arguments that the operator's schema names:

    @converts("aten.add.Tensor", "aten.add.Scalar")
    def add(c: Conversion, self: Any, other: Any, alpha: Any) -> Any: ...

Arguments that it does not name (`device`, `layout`, ...) are not looked at.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter, and the names of the arguments that it takes."""

    function: Function
    wanted: tuple[str, ...]


TABLE: dict[str, Converter] = {}
"""Converters by the operator's full name: "aten.add.Tensor", "_operator.mul"."""


def converts(*names: str) -> Callable[[Function], Function]:
    """Register a converter for the operators `names`."""

    def register(function: Function) -> Function:
        wanted = tuple(inspect.signature(function).parameters)[1:]
        for name in names:
            if name in TABLE:
                raise ValueError(f"two converters for {name}")
            TABLE[name] = Converter(function, wanted)
        return function

    return register


def name_of(target: Any) -> str:
    """Return the full name of what a node calls.
    An operator has its overload, a Python function its module."""
    if hasattr(target, "_schema"):
        return str(target)
    module = getattr(target, "__module__", None) or type(target).__module__
    return f"{module}.{getattr(target, '__name__', type(target).__name__)}"


def functional_name(name: str) -> str:
    """The name of the operator that returns what `name` writes in place.
    "aten.add_.Tensor" gives "aten.add.Tensor"."""
    space, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if not packet.endswith("_") or packet.endswith("__"):
        return name
    return f"{space}.{packet.removesuffix('_')}.{overload}"
