"""Helpers for bodies of operators: facts of relax expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Constant as RelayConstant
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Constant, TensorStructInfo, info_of
from compiler.tir.nodes import IntImm


def emit(value: Any) -> Any:
    """A value bound to a variable, so that its shape is known."""
    builder = BlockBuilder.current()
    assert builder is not None
    return builder.emit(value)


def tensor(value: Any, name: str) -> TensorStructInfo:
    """Return what is known of a tensor."""
    info = info_of(value)
    if not isinstance(info, TensorStructInfo):
        raise ArgumentError(f"{name} needs a tensor, got {info}")
    return info


def shape(value: Any, name: str) -> list[Any]:
    """The sizes of a tensor, ints where they are known."""
    dims = tensor(value, name).dims
    if dims is None:
        raise ArgumentError(f"{name} needs a tensor of a known shape")
    return [int(size) if isinstance(size, IntImm) else size for size in dims]


def rank(value: Any, name: str) -> int:
    """The number of dimensions of a tensor."""
    ndim = tensor(value, name).ndim
    if ndim < 0:
        raise ArgumentError(f"{name} needs a tensor of a known number of dimensions")
    return ndim


def number(value: Any, name: str) -> Any:
    """The number that a constant holds, or that is given as such."""
    if isinstance(value, Constant):
        if value.data.size != 1:
            raise ArgumentError(f"{name} needs a scalar, got a tensor of {value.data.shape}")
        return value.array.reshape(()).item()
    if isinstance(value, bool | int | float):
        return value
    raise ArgumentError(f"{name} needs a constant", hint="use relay.const")


def numbers(value: Any, name: str) -> list[int] | None:
    """The ints that an attribute or a constant holds; None for none."""
    if value is None:
        return None
    if isinstance(value, Constant | RelayConstant):
        return [int(item) for item in value.data.numpy().reshape(-1).tolist()]
    if isinstance(value, Sequence):
        return [int(item) for item in value]
    if hasattr(value, "__index__"):
        return [int(value)]
    raise ArgumentError(f"{name} needs ints, got {value!r}", hint="give a list of ints, or relay.const")


def axes_of(axis: Any, ndim: int, exclude: bool, name: str) -> list[int] | None:
    """The axes that a reduction goes over; None for all."""
    if axis is None:
        return None
    found = [int(a) % ndim for a in (axis if isinstance(axis, Sequence) else [axis])]
    return [a for a in range(ndim) if a not in found] if exclude else found
