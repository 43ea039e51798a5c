"""The error classes, under TVM's names where it has them."""

from collections.abc import Callable
from typing import TypeVar

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


class OpError(TVMError, kind="operator"):
    """Base of errors about operators of graphs."""


class OpNotImplemented(OpError, NotImplementedError, kind="operator_missing"):
    """An operator that is not there."""


class OpAttributeRequired(OpError, AttributeError, kind="operator_attribute_missing"):
    """An attribute that an operator needs and was not given."""


class OpAttributeInvalid(OpError, AttributeError, kind="operator_attribute_value"):
    """An attribute with a value that its operator cannot have."""


class OpAttributeUnImplemented(OpError, NotImplementedError, kind="operator_attribute_unknown"):
    """An attribute that its operator does not take here."""


_ErrorClass = TypeVar("_ErrorClass", bound=type[BaseException])


def register_error(
    func_name: str | _ErrorClass | None = None, cls: _ErrorClass | None = None
) -> _ErrorClass | Callable[[_ErrorClass], _ErrorClass]:
    """Return an error class of a program's own as it is.

    It is also a decorator, with or without a name for the class. Errors keep their classes on their way through packed
    functions here, so nothing has to be known of them.
    """
    given = func_name if isinstance(func_name, type) else cls
    return (lambda later: later) if given is None else given


__all__ = [
    "ArgumentError", "ArtifactError", "CodegenError", "CompileError", "ConnectError", "DeadlineExceeded", "DeviceError",
    "DeviceLost", "DiagnosticError", "ExecutorCrashed", "IRError", "InternalError", "LeaseRefused", "LoweringError",
    "OpAttributeInvalid", "OpAttributeRequired", "OpAttributeUnImplemented", "OpError", "OpNotImplemented",
    "OutOfMemory", "RPCError", "RPCSessionTimeoutError", "RemoteError", "ScheduleError", "ScriptError", "SessionClosed",
    "SessionRefused", "TVMError", "TargetError", "TunefarmError", "register_error",
]  # fmt: skip
