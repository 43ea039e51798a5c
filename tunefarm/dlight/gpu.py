"""Rules of default schedules for GPUs, by the module's name in the field."""

from tuner.faces.dlight.gpu import GEMV, Fallback, GeneralReduction, Matmul, Reduction, Transpose

__all__ = ["GEMV", "Fallback", "GeneralReduction", "Matmul", "Reduction", "Transpose"]
