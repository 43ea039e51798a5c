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
from compiler.errors import TunefarmError as InternalError
from compiler.errors import TunefarmError as TVMError
from compiler.script.source import ScriptError
from compiler.script.source import ScriptError as DiagnosticError
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
from rpc_server.errors import DeadlineExceeded as RPCSessionTimeoutError

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CodegenError",
    "CompileError",
    "ConnectError",
    "DeadlineExceeded",
    "DeviceError",
    "DeviceLost",
    "DiagnosticError",
    "ExecutorCrashed",
    "IRError",
    "InternalError",
    "LeaseRefused",
    "LoweringError",
    "OutOfMemory",
    "RPCError",
    "RPCSessionTimeoutError",
    "RemoteError",
    "ScheduleError",
    "ScriptError",
    "SessionClosed",
    "SessionRefused",
    "TVMError",
    "TargetError",
    "TunefarmError",
]  # fmt: skip
