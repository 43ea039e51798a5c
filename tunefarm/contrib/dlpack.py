"""Kernels called with other frameworks' tensors, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.runtime.core.ndarray import from_dlpack

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(
    tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return `tvm_func` taking tensors of `tensor_type` too.
    `to_dlpack_func` makes DLPack capsules of them."""

    def converted(*args: Any) -> Any:
        return tvm_func(*(from_dlpack(to_dlpack_func(x)) if isinstance(x, tensor_type) else x for x in args))

    return converted


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """Return `tvm_func` taking whatever speaks DLPack, such as tensors of PyTorch."""

    def converted(*args: Any) -> Any:
        return tvm_func(*(from_dlpack(x) if _is_foreign(x) else x for x in args))

    return converted


def _is_foreign(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and type(value).__module__.partition(".")[0] == "torch"
