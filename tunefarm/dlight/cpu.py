"""Rules of default schedules for CPUs, under the module's name in TVM."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.dlight.cpu import GEMV, Fallback, GeneralReduction, Matmul, Reduction, Transpose

__all__ = ["GEMV", "Fallback", "GeneralReduction", "Matmul", "Reduction", "Transpose"]

refuse_other_names(__name__)
