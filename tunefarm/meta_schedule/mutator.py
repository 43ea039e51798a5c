"""Ways to vary a decision."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.spaces.mutator import (
    MutateComputeLocation,
    MutateParallel,
    MutateTileSize,
    MutateUnroll,
    Mutator,
    PyMutator,
)

create = Mutator.create

__all__ = [
    "MutateComputeLocation", "MutateParallel", "MutateTileSize", "MutateUnroll", "Mutator", "PyMutator", "create",
]  # fmt: skip

refuse_other_names(__name__)
