"""Ways to vary a decision."""

from tuner.faces.meta_schedule.mutator import (
    MutateComputeLocation,
    MutateParallel,
    MutateTileSize,
    MutateUnroll,
    Mutator,
    PyMutator,
)

__all__ = ["MutateComputeLocation", "MutateParallel", "MutateTileSize", "MutateUnroll", "Mutator", "PyMutator"]
