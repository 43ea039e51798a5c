"""What a workload's function says about its cost on any machine."""

from __future__ import annotations

from functools import lru_cache

from compiler.errors import TunefarmError
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from tuner.task import argument_bytes


@lru_cache(maxsize=256)
def least_bytes(function: str) -> int | None:
    """`argument_bytes` of a function given as script; None when the text is of another version or several functions."""
    try:
        func = from_source(function)
    except TunefarmError:
        return None
    return argument_bytes(func) if isinstance(func, PrimFunc) else None
