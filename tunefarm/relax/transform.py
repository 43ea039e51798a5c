"""Passes over graphs under TVM's names: each call makes a pass to put in a `Sequential`."""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir.transform.passes import Pass
from compiler.relax.fusion.composite import FusionPattern, PatternCheckContext
from compiler.relax.transform import pipeline as _pipeline  # noqa: F401  (registers its passes)
from compiler.relax.transform.passes import DataflowBlockPass, dataflowblock_pass, function_pass, pass_constructors
from compiler.relax.transform.passes import RelaxFunctionPass as FunctionPass

_constructors = pass_constructors()

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
