"""Rules of default schedules for CPUs, under the module's name in TVM."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.dlight.cpu import GEMV, Fallback, GeneralReduction, Matmul, Reduction, Transpose

__all__ = ["GEMV", "Fallback", "GeneralReduction", "Matmul", "Reduction", "Transpose"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
