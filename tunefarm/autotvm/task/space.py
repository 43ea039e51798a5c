"""Config spaces."""

from tuner.autotvm.axes import Axis, VirtualAxis
from tuner.autotvm.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from tuner.autotvm.errors import InstantiationError
from tuner.autotvm.space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from tuner.autotvm.transforms import AnnotateSpace, OtherOptionSpace, ReorderSpace, SplitSpace, TransformSpace

__all__ = [
    "AnnotateEntity",
    "AnnotateSpace",
    "Axis",
    "ConfigEntity",
    "ConfigSpace",
    "FallbackConfigEntity",
    "InstantiationError",
    "OtherOptionEntity",
    "OtherOptionSpace",
    "ReorderEntity",
    "ReorderSpace",
    "SplitEntity",
    "SplitSpace",
    "TransformSpace",
    "VirtualAxis",
]  # fmt: skip
