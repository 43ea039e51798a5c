"""`from tunefarm.script import tirx as T`: what texts of Apache TVM 0.27 call `tunefarm.script.tir`."""

from typing import Any

from tunefarm.script import tir as _tir
from tunefarm.script.tir import Buffer, macro, prim_func

__all__ = ["Buffer", "macro", "prim_func"]
__script_namespace__ = "tir"


def __getattr__(name: str) -> Any:
    return getattr(_tir, name)


def __dir__() -> list[str]:
    return dir(_tir)
