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
from rpc_server.errors import (
    ConnectError,
    DeadlineExceeded,
    DeviceLost,
    ExecutorCrashed,
    LeaseRefused,
    OutOfMemory,
    RemoteError,
    RPCError,
    SessionClosed,
    SessionRefused,
)

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CodegenError",
    "CompileError",
    "ConnectError",
    "DeadlineExceeded",
    "DeviceError",
    "DeviceLost",
    "ExecutorCrashed",
    "IRError",
    "LeaseRefused",
    "LoweringError",
    "OutOfMemory",
    "RPCError",
    "RemoteError",
    "ScheduleError",
    "SessionClosed",
    "SessionRefused",
    "TVMError",
    "TargetError",
    "TunefarmError",
]  # fmt: skip
