"""Ways to vary a decision."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
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
    "MutateComputeLocation",
    "MutateParallel",
    "MutateTileSize",
    "MutateUnroll",
    "Mutator",
    "PyMutator",
    "create",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
