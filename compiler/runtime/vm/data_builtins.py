"""Functions of the machine whose results' shapes depend on the data, so that no kernel computes them.

The interpreter of graphs runs the parts that work on numpy arrays, too.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.ndarray import array as make_array
from compiler.runtime.vm.builtins import builtin

Array = npt.NDArray[Any]


# ------------------------------------------------------------------------------ on numpy arrays


def nonzero_of(x: Array) -> Array:
    """Where elements are not zero: a row a dimension, a column an element."""
    return np.array(np.nonzero(np.atleast_1d(x)), "int64")


def unique_of(
    x: Array, sorted: bool = True, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: int | None = None,
) -> Any:  # fmt: skip
    """The distinct elements, or slices along `axis`, with the requested positions and counts."""
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    wanted = [(first, return_index), (inverse.reshape(-1), return_inverse), (counts, return_counts)]
    found = [values, *(part.astype("int64") for part, asked in wanted if asked)]
    return tuple(found) if len(found) > 1 else values


def strided_slice_of(x: Array, begin: Array, end: Array, strides: Array) -> Array:
    """x[begin:end:strides], bounds with one number a dimension."""
    if any(bound.shape != (x.ndim,) for bound in (begin, end, strides)):
        raise ArgumentError(f"bounds must have {x.ndim} numbers, they are {begin.shape}, {end.shape}, {strides.shape}")
    if not all(strides.tolist()):
        raise ArgumentError("a stride is 0")
    parts: list[slice] = []
    for size, first, last, step in zip(x.shape, begin.tolist(), end.tolist(), strides.tolist()):
        stop = last if last >= 0 or step > 0 or last + size >= 0 else None
        parts.append(slice(first, stop, step))
    return np.ascontiguousarray(x[tuple(parts)])


def view_of(x: Array, shape: tuple[int, ...], dtype: str, offset: int) -> Array:
    """The bytes of an array from `offset` on, as elements of `dtype` in `shape`."""
    element = storage_dtype(dtype)
    extents = tuple(int(extent) for extent in shape)
    count = prod(extents) * element.itemsize
    memory = np.ascontiguousarray(x).reshape(-1).view("uint8")
    if min(extents, default=0) < 0 or offset < 0 or offset + count > memory.size:
        raise ArgumentError(f"a view as {dtype}{list(extents)} from byte {offset} on leaves {memory.size} bytes")
    return memory[offset : offset + count].copy().view(element).reshape(extents)


# --------------------------------------------------------------------------------- on the machine


def _given(value: Any, name: str) -> Array:
    if not isinstance(value, NDArray):
        raise ArgumentError(f"{name} takes an array, not a {type(value).__name__}")
    return value.numpy()


def _back(result: Array, beside: NDArray) -> NDArray:
    """A result where the argument lies."""
    return make_array(result, beside.device)


@builtin("vm.builtin.nonzero")
def nonzero(value: NDArray) -> NDArray:
    """Where an array's elements are not zero."""
    return _back(nonzero_of(_given(value, "nonzero")), value)


@builtin("vm.builtin.unique")
def unique(value: NDArray, sorted: int, index: int, inverse: int, counts: int, axis: int | None = None) -> Any:
    """The distinct elements of an array. The numbers say which positions and counts are requested."""
    array = _given(value, "unique")
    if axis is not None and not -array.ndim <= axis < array.ndim:
        raise ArgumentError(f"unique: axis is {axis}, but there are {array.ndim} dimensions")
    found = unique_of(array, bool(sorted), bool(index), bool(inverse), bool(counts), axis)
    return tuple(_back(part, value) for part in found) if isinstance(found, tuple) else _back(found, value)


@builtin("vm.builtin.dynamic_strided_slice")
def dynamic_strided_slice(value: NDArray, begin: NDArray, end: NDArray, strides: NDArray) -> NDArray:
    """A slice of an array, bounds being arrays."""
    array, *bounds = (_given(item, "dynamic_strided_slice") for item in (value, begin, end, strides))
    return _back(strided_slice_of(array, *bounds), value)


@builtin("vm.builtin.view")
def view(value: NDArray, shape: tuple[int, ...], dtype: str, offset: int) -> NDArray:
    """Return an array's memory in another shape and element type.
    It is a copy, since values are never changed."""
    return _back(view_of(_given(value, "view"), shape, str(dtype), int(offset)), value)


@builtin("vm.builtin.shape_to_tensor")
def shape_to_tensor(shape: tuple[int, ...]) -> NDArray:
    """The extents of a shape as a one-dimensional array."""
    if not isinstance(shape, tuple):
        raise ArgumentError(f"shape_to_tensor takes a shape, not a {type(shape).__name__}")
    return make_array(np.array(shape, "int64"))


@builtin("vm.builtin.size")
def size(value: NDArray) -> NDArray:
    """How many elements an array has."""
    if not isinstance(value, NDArray):
        raise ArgumentError(f"size takes an array, not a {type(value).__name__}")
    return make_array(np.array(value.size, "int64"))
