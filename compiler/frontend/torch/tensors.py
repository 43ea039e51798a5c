"""Tensors of torch and arrays of tunefarm over the same memory."""

from __future__ import annotations

from typing import Any

import torch

from compiler.runtime.core.ndarray import NDArray, from_dlpack


def to_torch(value: NDArray) -> Any:
    """A tensor that shares an array's memory."""
    return torch.from_dlpack(value)


def from_torch(tensor: Any) -> NDArray:
    """An array that shares a host tensor's memory; a copy where that is scattered."""
    return from_dlpack(tensor.detach().contiguous())
