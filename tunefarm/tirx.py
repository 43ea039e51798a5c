"""The name of `tunefarm.tir` in newer versions of Apache TVM."""

import sys
from typing import Any

from tunefarm import tir as _tir
from tunefarm.script import tirx as script

__all__ = ["script"]

sys.modules[f"{__name__}.script"] = script  # for `import tunefarm.tirx.script`


def __getattr__(name: str) -> Any:
    return getattr(_tir, name)


def __dir__() -> list[str]:
    return dir(_tir)
