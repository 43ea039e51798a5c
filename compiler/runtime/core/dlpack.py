"""DLPack: host arrays handed to other libraries, and taken from them, without a copy.

An exported capsule is numpy's over the same memory; its destructor may run at any time and on any thread. Only what
numpy cannot say is written into it: bfloat16, the device's index, that it is a copy. Imported capsules are read here.
The structures are DLPack's (dlpack.h). A capsule named "dltensor" or "dltensor_versioned" points to a managed tensor.
Whoever renames it to "used_..." must call its deleter once.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError, DeviceError, TunefarmError

AnyArray = npt.NDArray[Any]

MAJOR = 1  # of DLPack's version; another one has another layout
READ_ONLY, IS_COPIED = 1, 2
_HOST_TYPES = {1: "cpu", 3: "cuda_host", 11: "rocm_host"}  # device types whose memory this process can use
_BFLOAT16 = (4, 16, 1)
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


class ExportError(DeviceError, BufferError, kind="dlpack_export"):
    """An array that cannot be handed out the way it was asked for."""


class _Device(ctypes.Structure):
    _fields_: ClassVar = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_: ClassVar = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ManagedTensor(ctypes.Structure):
    _fields_: ClassVar = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class VersionedTensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


_LAYOUTS: dict[bytes, type[ManagedTensor | VersionedTensor]] = {
    b"dltensor": ManagedTensor,
    b"dltensor_versioned": VersionedTensor,
}


def _capsule_function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, ctypes.py_object, *arguments)((f"PyCapsule_{name}", ctypes.pythonapi))


_name_of = _capsule_function("GetName", ctypes.c_char_p)
_pointer_of = _capsule_function("GetPointer", ctypes.c_void_p, ctypes.c_char_p)
_rename = _capsule_function("SetName", ctypes.c_int, ctypes.c_void_p)
# A capsule keeps the address of its name, not a copy.
_USED = {name: ctypes.create_string_buffer(b"used_" + name) for name in _LAYOUTS}


# -- handing out -----------------------------------------------------------------------------------------
def to_capsule(view: AnyArray, dtype: str, device: tuple[int, int], max_version: Any, copy: bool | None) -> Any:
    """Return a capsule over `view`'s memory, or with `copy` over a copy of it.
    `dtype` is that of the elements, which numpy may not have."""
    plain = view.view(np.uint16) if dtype == "bfloat16" else view
    if copy:
        plain = plain.copy()
    numpy_does = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
    versioned = max_version is not None and int(max_version[0]) >= MAJOR and numpy_does
    if not (versioned or plain.flags.writeable):
        raise ExportError(
            "the array is read-only, which only a versioned capsule can say",
            hint="ask for one with max_version=(1, 0), or pass on `nd.array(x)`, a copy",
        )
    capsule = plain.__dlpack__(max_version=(MAJOR, 0)) if versioned else plain.__dlpack__()
    managed = _managed(capsule)
    managed.tensor.device.type, managed.tensor.device.index = device
    if dtype == "bfloat16":
        managed.tensor.dtype = _DataType(*_BFLOAT16)
    if copy and isinstance(managed, VersionedTensor):
        managed.flags |= IS_COPIED
    return capsule


# -- taking in -------------------------------------------------------------------------------------------
class BorrowedTensor:
    """A tensor of another library that is in use here.
    Its deleter is called when this object is collected."""

    def __init__(self, address: int, layout: type[ManagedTensor | VersionedTensor]) -> None:
        managed = layout.from_address(address)
        self._address = address
        self._delete = DELETER(managed.deleter) if managed.deleter else None
        tensor = managed.tensor
        count = _elements(tensor) * (tensor.dtype.bits // 8)
        # read by numpy, which keeps the object that has it
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (count,),
            "data": ((tensor.data or 0) + tensor.byte_offset, _is_read_only(managed)),
        }
        self.empty = count == 0

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self._address)


class Shared(NamedTuple):
    """An imported tensor: its elements as bytes, which keep the lender's memory alive."""

    shape: tuple[int, ...]
    dtype: str
    data: npt.NDArray[np.uint8]


def take(source: Any) -> Shared:
    """The memory of a capsule, or of an object that makes one. The capsule is used up.

    Raises ArgumentError when the memory cannot be shared; then the capsule is left as it was.
    """
    capsule = _ask(source) if hasattr(source, "__dlpack__") else source
    if type(capsule).__name__ != "PyCapsule":
        raise ArgumentError(f"{type(source).__name__} does not speak DLPack", hint="`nd.array(x)` copies it")
    name = _name_of(capsule) or b""
    if name in (used.value for used in _USED.values()):
        raise ArgumentError("cannot share this capsule: it was used before", hint="ask its maker for another one")
    managed = _managed(capsule)
    shape, dtype = _check(managed)
    _rename(capsule, ctypes.addressof(_USED[name]))
    borrowed = BorrowedTensor(ctypes.addressof(managed), type(managed))
    data = np.empty(0, np.uint8) if borrowed.empty else np.asarray(borrowed)
    return Shared(shape, dtype, data)


def _ask(source: Any) -> Any:
    """A capsule from an object: a versioned one, if it makes them."""
    place = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (1, 0)
    if int(place[0]) not in _HOST_TYPES:
        raise _refusal(f"it is on a device of type {int(place[0])}, not in host memory")
    try:
        try:
            return source.__dlpack__(max_version=(MAJOR, 0))
        except TypeError:  # makers from before versions take no such argument
            return source.__dlpack__()
    except TunefarmError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise _refusal(str(error)) from None


def _managed(capsule: Any) -> ManagedTensor | VersionedTensor:
    name = _name_of(capsule) or b""
    layout = _LAYOUTS.get(name)
    if layout is None:
        raise _refusal(f"it is a capsule of {name.decode('ascii', 'replace')!r}, not of a DLPack tensor")
    return layout.from_address(_pointer_of(capsule, name))


def _check(managed: ManagedTensor | VersionedTensor) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a tensor that an array can share."""
    if isinstance(managed, VersionedTensor) and managed.major != MAJOR:
        raise _refusal(f"it speaks DLPack {managed.major}.{managed.minor}; version {MAJOR} is understood")
    tensor = managed.tensor
    if tensor.device.type not in _HOST_TYPES:
        raise _refusal(f"it is on a device of type {tensor.device.type}, not in host memory")
    kind, bits, lanes = _CODES.get(tensor.dtype.code), tensor.dtype.bits, tensor.dtype.lanes
    if kind is None or lanes != 1 or bits % 8:
        raise _refusal(f"its dtype (code {tensor.dtype.code}, {bits} bits, {lanes} lanes) is none an array can have")
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides and _elements(tensor) and not _is_compact(shape, tuple(tensor.strides[: tensor.ndim])):
        raise _refusal(f"it is not C-contiguous: shape {shape}, strides {tuple(tensor.strides[: tensor.ndim])}")
    return shape, "bool" if kind == "bool" else f"{kind}{bits}"


def _is_read_only(managed: ManagedTensor | VersionedTensor) -> bool:
    return isinstance(managed, VersionedTensor) and bool(managed.flags & READ_ONLY)


def _elements(tensor: DLTensor) -> int:
    count = 1
    for extent in tensor.shape[: tensor.ndim]:
        count *= extent
    return count


def _is_compact(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether strides, in elements, are those of C order. The stride of an extent of 1 means nothing."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _refusal(reason: str) -> ArgumentError:
    return ArgumentError(f"cannot share this array: {reason}", hint="`nd.array(x)` copies it")
