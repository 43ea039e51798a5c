"""The tuner's part of backends: the search space of functions on a target kind, and its models' names."""

from __future__ import annotations

from abc import ABC, abstractmethod

from compiler.target import entry_points
from compiler.target.backend_table import BackendTable
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.space.sketch import Sketch, Values


class TuningBackend(ABC):
    """The tuner's side of a target kind.
    Its sketches hold its knowledge of the hardware: limits and drafts."""

    @abstractmethod
    def sketches(self, func: PrimFunc, target: Target) -> tuple[Sketch, ...]:
        """Return the sketches of `func`, which has blocks with constant extents. Raises TuningError."""

    def sketch(self, func: PrimFunc, target: Target, name: str, begin: Values) -> Sketch | None:
        """Return the sketch called `name` alone, its trace's decisions near `begin`.
        None if only `sketches` can tell."""
        return None

    def model_family(self, target: Target) -> str:
        """Name the targets that share a cost model with this one."""
        return f"{target.kind}-{target.gpu_arch or 'any'}"


TUNING_BACKENDS: BackendTable[TuningBackend] = BackendTable(
    {
        "llvm": "tuner.space.cpu.generate:CPU",
        "cuda": "tuner.space.gpu.generate:GPU",
        "nvptx": "tuner.space.gpu.generate:GPU",
    },
    entry_points.TUNING_GROUP,
)
_DEFAULT = "llvm"


def tuning_backend_of(target: Target) -> TuningBackend:
    """Return the backend of the target's kind; the CPU's where the kind has none."""
    found = TUNING_BACKENDS.find(target.kind) or TUNING_BACKENDS.find(_DEFAULT)
    assert found is not None
    return found
