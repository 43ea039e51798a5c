"""The error classes, under the field's names where it has one."""

from compiler.errors import (
    ArgumentError,
    ArtifactError,
    CodegenError,
    CompileError,
    DeviceError,
    IRError,
    LoweringError,
    ScheduleError,
    TargetError,
    TunefarmError,
)
from compiler.errors import TunefarmError as TVMError

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CodegenError",
    "CompileError",
    "DeviceError",
    "IRError",
    "LoweringError",
    "ScheduleError",
    "TVMError",
    "TargetError",
    "TunefarmError",
]
