"""Passes over graphs by the field's names: each call makes a pass to put in a `Sequential`."""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir.transform.passes import Pass
from compiler.relax.fusion.composite import FusionPattern, PatternCheckContext
from compiler.relax.transform import pipeline as _pipeline  # noqa: F401  (registers its passes)
from compiler.relax.transform.passes import (
    DataflowBlockPass,
    RelaxPass,
    dataflowblock_pass,
    function_pass,
    relax_passes,
)
from compiler.relax.transform.passes import RelaxFunctionPass as FunctionPass


def _constructor(registered: RelaxPass) -> Callable[..., Pass]:
    def make(*args: object, **kwargs: object) -> Pass:
        return registered.make(*args, **kwargs)

    make.__name__ = make.__qualname__ = registered.title
    make.__doc__ = registered.description
    make.__signature__ = registered.signature  # type: ignore[attr-defined]
    return make


_constructors = {title: _constructor(registered) for title, registered in relax_passes().items()}

__all__ = [
    "DataflowBlockPass",
    "FunctionPass",
    "FusionPattern",
    "PatternCheckContext",
    "dataflowblock_pass",
    "function_pass",
    *_constructors,
]


def __getattr__(name: str) -> Callable[..., Pass]:
    try:
        return _constructors[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(__all__)
