"""Memory: what graphs become of allocations and their ends, once passes have made them explicit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError
from compiler.relax.nodes import (
    DataTypeImm,
    Expr,
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from compiler.relax.op.core.params import DtypeArg, ExprArg, ScalarArg, ShapeArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import nothing
from compiler.runtime.core.dtypes import storage_dtype

Array = npt.NDArray[Any]
_ON_HOST = refused("the machine does it, not a kernel")
_NOT_THERE = refused("layouts are chosen before memory is")
_NO_GRADIENT = refused("gradients are made before memory is")


def _tensor_info(use: Use) -> StructInfo:
    shape, dtype = use.shape("shape"), use.arg("dtype")
    if not isinstance(dtype, DataTypeImm):
        use.fail("dtype must be the name of an element type")
    if shape.values is None:
        return TensorStructInfo(use.arg("shape"), dtype.value)  # type: ignore[arg-type]
    return tensor(shape.values, dtype.value)


def _object(use: Use) -> StructInfo:
    return ObjectStructInfo()


def _nothing(use: Use) -> StructInfo:
    return TupleStructInfo(())


def _new(shape: tuple[int, ...], dtype: str, device: int, scope: str) -> Array:
    return np.zeros(shape, storage_dtype(dtype))


def _storage(size: tuple[int, ...], device: int, scope: str, dtype: str) -> Array:
    return np.zeros(int(np.prod(size, dtype=np.int64)) * storage_dtype(dtype).itemsize, "uint8")


def _part(storage: Array, offset: int, shape: tuple[int, ...], dtype: str) -> Array:
    count = int(np.prod(shape, dtype=np.int64)) * storage_dtype(dtype).itemsize
    if offset < 0 or offset + count > storage.size:
        raise ArgumentError(f"{dtype}{list(shape)} from byte {offset} on leaves a storage of {storage.size} bytes")
    return storage[offset : offset + count].view(storage_dtype(dtype)).reshape(shape)


@operator(
    "relax.builtin.alloc_tensor",
    infer=_tensor_info,
    te=_ON_HOST,
    host=_new,
    pattern=OpPatternKind.OPAQUE,
    flops=nothing,
    bytes=nothing,
    layout=_NOT_THERE,
    gradient=_NO_GRADIENT,
    pure=False,
)
def builtin_alloc_tensor(
    shape: ShapeArg,
    dtype: DtypeArg,
    runtime_device_index: ScalarArg = 0,
    storage_scope: ExprArg = "global",  # type: ignore[assignment]
) -> Expr:
    """Make an array whose memory is planned later."""


@operator(
    "relax.memory.alloc_storage",
    infer=_object,
    te=_ON_HOST,
    host=_storage,
    pattern=OpPatternKind.OPAQUE,
    flops=nothing,
    bytes=nothing,
    layout=_NOT_THERE,
    gradient=_NO_GRADIENT,
    pure=False,
)
def memory_alloc_storage(
    size: ShapeArg, virtual_device_index: ScalarArg, storage_scope: ExprArg, dtype: DtypeArg
) -> Expr:
    """Make memory for `size` elements of `dtype`, in which arrays are laid."""


@operator(
    "relax.memory.alloc_tensor",
    infer=_tensor_info,
    te=_ON_HOST,
    host=_part,
    pattern=OpPatternKind.OPAQUE,
    flops=nothing,
    bytes=nothing,
    layout=_NOT_THERE,
    gradient=_NO_GRADIENT,
    pure=False,
)
def memory_alloc_tensor(storage: ExprArg, offset: ScalarArg, shape: ShapeArg, dtype: DtypeArg) -> Expr:
    """Lay an array into memory, from byte `offset` on."""


@operator(
    "relax.memory.kill_storage",
    infer=_nothing,
    te=_ON_HOST,
    host=lambda storage: (),
    pattern=OpPatternKind.OPAQUE,
    flops=nothing,
    bytes=nothing,
    layout=_NOT_THERE,
    gradient=_NO_GRADIENT,
    pure=False,
)
def memory_kill_storage(storage: ExprArg) -> Expr:
    """Say that memory is used no more."""


@operator(
    "relax.memory.kill_tensor",
    infer=_nothing,
    te=_ON_HOST,
    host=lambda tensor: (),
    pattern=OpPatternKind.OPAQUE,
    flops=nothing,
    bytes=nothing,
    layout=_NOT_THERE,
    gradient=_NO_GRADIENT,
    pure=False,
)
def memory_kill_tensor(tensor: ExprArg) -> Expr:
    """Say that an array is used no more."""


@operator(
    "relax.vm.kill_object",
    infer=_nothing,
    te=_ON_HOST,
    host=lambda obj: (),
    pattern=OpPatternKind.OPAQUE,
    flops=nothing,
    bytes=nothing,
    layout=_NOT_THERE,
    gradient=_NO_GRADIENT,
    pure=False,
)
def vm_kill_object(obj: ExprArg) -> Expr:
    """Have the machine forget a value."""
