"""The arguments of templates and workloads as data: what identifies a call, and goes into records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.te.tensor import Tensor, placeholder
from compiler.tir.ops import as_int
from tuner.errors import TuningError

_TENSOR = "TENSOR"


class WorkloadArgumentError(TuningError, ValueError, kind="workload_argument"):
    """An argument that cannot be recorded."""


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as data that can be hashed and recorded: a te tensor becomes ("TENSOR", shape, dtype).
    Raises WorkloadArgumentError for an argument that is no number, text, None, tensor, or a list of these."""
    return tuple(_serialized(arg) for arg in args)


def _serialized(arg: Any) -> Any:
    match arg:
        case Tensor():
            return (_TENSOR, tuple(_constant(arg, d) for d in arg.shape), arg.dtype)
        case tuple() | list():
            return serialize_args(arg)
        case None | bool() | int() | float() | str():
            return arg
    number = as_int(arg)
    if number is None:
        what = type(arg).__name__
        raise WorkloadArgumentError(f"an argument of a workload is a number, text or tensor, not a {what}")
    return number


def _constant(tensor: Tensor, dim: Any) -> int:
    size = as_int(dim)
    if size is None:
        raise WorkloadArgumentError(f"tensor {tensor.name!r} has a symbolic dimension", hint="tune for constant sizes")
    return size


def deserialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments to call a function with: tensors become placeholders."""
    return tuple(
        placeholder(arg[1], arg[2]) if isinstance(arg, tuple) and arg[:1] == (_TENSOR,) else arg for arg in args
    )


def tuples(data: Sequence[Any]) -> tuple[Any, ...]:
    """Turn lists, as JSON has them, into tuples all the way down, because workloads compare as tuples."""
    return tuple(tuples(item) if isinstance(item, list) else item for item in data)
