"""Config spaces."""

from tuner.faces.autotvm.axes import Axis, VirtualAxis
from tuner.faces.autotvm.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from tuner.faces.autotvm.errors import InstantiationError
from tuner.faces.autotvm.space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from tuner.faces.autotvm.transforms import (
    AnnotateSpace,
    OtherOptionSpace,
    ReorderSpace,
    SplitSpace,
    TransformSpace,
    split_lengths,
)


def get_factors(n: int) -> list[int]:
    """The numbers that divide `n`, in ascending order."""
    return split_lengths(n, "factors")


def get_pow2s(n: int) -> list[int]:
    """The powers of two up to `n`, in ascending order."""
    return split_lengths(n, "power2")


__all__ = [
    "AnnotateEntity", "AnnotateSpace", "Axis", "ConfigEntity", "ConfigSpace", "FallbackConfigEntity",
    "InstantiationError", "OtherOptionEntity", "OtherOptionSpace", "ReorderEntity", "ReorderSpace", "SplitEntity",
    "SplitSpace", "TransformSpace", "VirtualAxis", "get_factors", "get_pow2s",
]  # fmt: skip
