"""`from tunefarm.script import tirx as T`: what texts of Apache TVM 0.27 call `tunefarm.script.tir`."""

import re
from typing import Any

from tunefarm.script import tir as _tir
from tunefarm.script.tir import Buffer, macro, prim_func

__all__ = ["Buffer", "macro", "prim_func"]
__script_namespace__ = "tir"


_LONG = {"bf": "bfloat", "f": "float", "i": "int", "u": "uint"}


def __getattr__(name: str) -> Any:
    short = re.fullmatch(r"(bf|f|i|u)(\d+)", name)
    return getattr(_tir, name if short is None else _LONG[short[1]] + short[2])


def __dir__() -> list[str]:
    return dir(_tir)
