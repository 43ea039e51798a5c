"""Config spaces."""

from tuner.faces.autotvm.axes import Axis, VirtualAxis
from tuner.faces.autotvm.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from tuner.faces.autotvm.errors import InstantiationError
from tuner.faces.autotvm.space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from tuner.faces.autotvm.transforms import AnnotateSpace, OtherOptionSpace, ReorderSpace, SplitSpace, TransformSpace

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
