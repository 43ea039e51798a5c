"""Rules of default schedules for GPUs."""

from __future__ import annotations

from tuner.faces.dlight.kinds import KernelKind
from tuner.faces.dlight.rules import FallbackRule, KindRule


class Matmul(KindRule):
    """Products of matrices and convolutions: each operand is used many times."""

    KIND, CPU = KernelKind.MATMUL, False


class GEMV(KindRule):
    """Products of a matrix and a vector: the matrix is read once."""

    KIND, CPU = KernelKind.GEMV, False


class Reduction(KindRule):
    """Sums and other reductions of one tensor."""

    KIND, CPU = KernelKind.REDUCTION, False


class GeneralReduction(KindRule):
    """Several reductions that follow each other, as in softmax and norms."""

    KIND, CPU = KernelKind.GENERAL_REDUCTION, False


class Transpose(KindRule):
    """Copies whose neighbours come from places apart."""

    KIND, CPU = KernelKind.TRANSPOSE, False


class Fallback(FallbackRule):
    """Every kernel."""

    CPU = False
