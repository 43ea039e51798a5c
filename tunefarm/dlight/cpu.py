"""Rules of default schedules for CPUs, by the module's name in the field."""

from tuner.faces.dlight.cpu import GEMV, Fallback, GeneralReduction, Matmul, Reduction, Transpose

__all__ = ["GEMV", "Fallback", "GeneralReduction", "Matmul", "Reduction", "Transpose"]
