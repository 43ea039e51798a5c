"""NDArray: a C-contiguous array in a device's memory, the argument type of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError, DeviceError
from compiler.runtime.core import dlpack
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.device_memory import DeviceMemory
from compiler.runtime.core.dtypes import cast_to, dtype_name, storage_dtype
from compiler.runtime.core.host import ALIGNMENT, HostBuffer

AnyArray = npt.NDArray[Any]
_CPU = cpu()
_new = object.__new__
READ_ONLY = "read-only"  # in a signature, in the place of the device


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """The shape and type of an array, with what follows from them."""

    shape: tuple[int, ...]
    dtype: str
    stored: np.dtype[Any]
    nbytes: int
    signature: tuple[object, ...]

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(shape: tuple[int, ...], dtype: str) -> ArrayKind:
        stored = storage_dtype(dtype)
        return ArrayKind(shape, dtype, stored, prod(shape) * stored.itemsize, (shape, dtype, _CPU.device_type))


class NDArray:
    """A C-contiguous array on `device`, with `shape` and a `dtype` named like "float32".

    Make one with `array`, `empty` or `from_dlpack`. `numpy()` copies to the host; `numpy.asarray(x)` and
    `numpy.from_dlpack(x)` share the memory of a CPU array. Memory on another device is held by `handle`, which only
    that device's API understands. An array over memory that its owner said is read-only is read-only, too: kernels may
    only read it.
    """

    __slots__ = ("__weakref__", "_handle", "_owner", "_pointer", "_signature", "_view", "device", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str, device: Device, handle: Any, owner: object = None) -> None:
        """Wrap memory that the device's API allocated. `owner`: whoever else keeps it alive and frees it."""
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self._handle = handle
        self._owner = owner
        self._view: AnyArray | None = None
        self._pointer = 0
        # Equal to a kernel argument's signature iff the array can be passed for it without a closer look.
        self._signature: tuple[object, ...] | None = None
        if isinstance(handle, HostBuffer):
            self._view = handle.data.view(storage_dtype(dtype)).reshape(shape)
            self._pointer = handle.address
            if handle.address % ALIGNMENT == 0:
                kind = device.device_type if self._view.flags.writeable else READ_ONLY
                self._signature = (shape, dtype, kind)
        elif isinstance(handle, DeviceMemory):
            self._pointer, self._signature = handle.address, (shape, dtype, str(device))

    @classmethod
    def part(
        cls, kind: ArrayKind, memory: npt.NDArray[np.uint8], offset: int, address: int, device: Device | None = None,
        owner: object = None,
    ) -> NDArray:  # fmt: skip
        """Make an array in host memory from a byte on.

        It costs less than `__init__`, for results of quick calls. The memory is writable, and long enough. `address` is
        the byte's address, a multiple of 64.
        """
        made = _new(cls)
        made.shape = kind.shape
        made.dtype = kind.dtype
        made.device = device or _CPU
        made._handle = None
        made._owner = owner
        made._view = np.ndarray(kind.shape, kind.stored, memory, offset)
        made._pointer = address
        made._signature = kind.signature
        return made

    def __del__(self) -> None:
        try:
            if self._view is None and self._owner is None and self._handle is not None:
                self.device.api.free(self.device, self._handle)
        except AttributeError:  # it was never finished
            return

    @property
    def handle(self) -> Any:
        """The memory's handle for the device's API: a HostBuffer for a CPU's."""
        if self._handle is None and self._view is not None:
            self._handle = HostBuffer.of_elements(self._view, self._pointer)
        return self._handle

    # -- description -----------------------------------------------------------------------------
    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * storage_dtype(self.dtype).itemsize

    @property
    def is_host(self) -> bool:
        """Whether the memory is this process's own."""
        return self._view is not None

    @property
    def data_ptr(self) -> int:
        """The address of a host array's first element. Raises DeviceError for another device's array."""
        self._host()
        return self._pointer

    @property
    def is_aligned(self) -> bool:
        """Whether a kernel may take it: host memory must start at a multiple of 64 bytes."""
        return self._view is None or self._pointer % ALIGNMENT == 0

    @property
    def is_writable(self) -> bool:
        """Whether its contents may be changed; false over somebody's read-only memory."""
        return self._view is None or self._view.flags.writeable

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        head = f"NDArray(shape={self.shape}, dtype={self.dtype!r}, device={self.device})"
        return f"{head}\n{self._view!r}" if self._view is not None else head

    # -- contents --------------------------------------------------------------------------------
    def numpy(self) -> AnyArray:
        """A copy on the host. bfloat16 comes as ml_dtypes' type where installed, else as its bits (uint16)."""
        if self._view is not None:
            return self._view.copy()
        dtype = storage_dtype(self.dtype)
        memory = self.device.host_memory(prod(self.shape) * dtype.itemsize)
        out: AnyArray = (
            np.empty(self.shape, dtype) if memory is None else np.frombuffer(memory, dtype).reshape(self.shape)
        )
        if out.nbytes:
            self.device.api.copy_to_host(self.device, self.handle, out.reshape(-1).view(np.uint8).data)
        return out

    asnumpy = numpy

    def copyfrom(self, source_array: NDArray | npt.ArrayLike) -> NDArray:
        """Fill with `source_array`, an array of the same shape whose dtype casts without changing its kind.

        Returns self. Raises ArgumentError on another shape or a cast that loses more than precision.
        """
        if isinstance(source_array, NDArray):
            source_array.copyto(self)
            return self
        self._check_writable()
        values = _contiguous(cast_to(np.asarray(source_array), self.dtype))
        if values.shape != self.shape:
            raise ArgumentError(f"cannot copy an array of shape {values.shape} into one of shape {self.shape}")
        if self._view is not None:
            self._view[...] = values
        elif values.nbytes:
            self.device.api.copy_from_host(self.device, self.handle, values.reshape(-1).view(np.uint8).data)
        return self

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """Copy into `target` (same shape and dtype), or into a new array on a device. Returns the target.

        Raises ArgumentError when shape or dtype differ, and for a `mem_scope` other than "global".
        """
        if mem_scope not in (None, "", "global"):
            raise ArgumentError(f"arrays lie in global memory only, not in {mem_scope!r}")
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target)
        if not isinstance(target, NDArray):
            raise ArgumentError(f"copy to an NDArray or a Device, not to {type(target).__name__}")
        if (target.shape, target.dtype) != (self.shape, self.dtype):
            raise ArgumentError(f"cannot copy {self.dtype}{list(self.shape)} into {target.dtype}{list(target.shape)}")
        target._check_writable()
        if self.nbytes == 0:
            return target
        api = target.device.api
        if self._view is not None:
            api.copy_from_host(target.device, target.handle, self.as_bytes())
        elif target._view is not None:
            self.device.api.copy_to_host(self.device, self.handle, target.as_bytes())
        elif target.device == self.device:
            api.copy_within(self.device, self.handle, target.handle, self.nbytes)
        else:
            api.copy_from_host(target.device, target.handle, self.numpy().reshape(-1).view(np.uint8).data)
        return target

    def as_bytes(self) -> memoryview:
        """A host array's memory as bytes, not copied; writable if it is.
        Raises DeviceError for another device's."""
        return self._host().reshape(-1).view(np.uint8).data

    def __getitem__(self, index: Any) -> Any:
        """Elements, read through numpy. A copy, for other devices' arrays of the whole."""
        return (self._view if self._view is not None else self.numpy())[index]

    def __setitem__(self, index: Any, value: npt.ArrayLike) -> None:
        """`x[:] = values` fills the whole array; a host array takes any index."""
        if isinstance(index, slice) and index == slice(None):
            self.copyfrom(np.broadcast_to(np.asarray(value), self.shape))
        else:
            self._check_writable()
            self._host()[index] = value

    def same_as(self, other: object) -> bool:
        """Whether both are one array, not only equal ones."""
        return self is other

    def _create_view(
        self, shape: Sequence[int], dtype: npt.DTypeLike | None = None, relative_byte_offset: int = 0
    ) -> NDArray:
        """Part of a host array's memory as another shape or dtype, not copied.

        Raises ArgumentError when it would leave the array, DeviceError for another device's array.
        """
        view = self._host()
        extents, name = _shape(shape), self.dtype if dtype is None else dtype_name(dtype)
        wanted = prod(extents) * storage_dtype(name).itemsize
        if relative_byte_offset < 0 or relative_byte_offset + wanted > self.nbytes:
            raise ArgumentError(
                f"a view of {name}{list(extents)} from byte {relative_byte_offset} on takes {wanted} bytes; "
                f"the array has {self.nbytes}"
            )
        data = view.reshape(-1).view(np.uint8)[relative_byte_offset : relative_byte_offset + wanted]
        return NDArray(extents, name, self.device, HostBuffer(data), owner=self)

    # -- numpy and DLPack ------------------------------------------------------------------------
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        if self._view is None:
            if copy is False:
                raise ValueError(f"an array on {self.device} cannot be seen by numpy without a copy")
            return self.numpy() if dtype is None else self.numpy().astype(dtype)
        if copy:
            return np.array(self._view, dtype=dtype)
        if copy is False and dtype is not None and np.dtype(dtype) != self._view.dtype:
            raise ValueError(f"{self.dtype} cannot be seen as {np.dtype(dtype)} without a copy")
        return np.asarray(self._view, dtype=dtype)

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """A DLPack capsule over a host array's memory, or over a copy of it (`copy=True`).

        It keeps the memory alive. Versioned when `max_version` says that the other side reads such. Raises
        ExportError (a BufferError) when asked for another device, or with a stream, which host memory has none of.
        """
        view = self._host()
        if stream is not None:
            raise dlpack.ExportError(f"{self.device} has no streams, but one was given: {stream!r}")
        place = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != place:
            wanted = tuple(int(part) for part in dl_device)
            raise dlpack.ExportError(
                f"the array is on {self.device}; device {wanted} needs a copy", hint="`x.copyto(device)` makes one"
            )
        return dlpack.to_capsule(view, self.dtype, place, max_version, copy)

    def to_dlpack(self) -> Any:
        """A DLPack capsule, without a version, over the memory."""
        return self.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.type_code, self.device.device_id

    def _check_writable(self) -> None:
        if not self.is_writable:
            raise ArgumentError("the array is read-only", hint="`nd.array(x)` makes a copy that is not")

    def _host(self) -> AnyArray:
        if self._view is None:
            raise DeviceError(
                f"the array is on {self.device}, not in host memory", hint="`.numpy()` copies it to the host"
            )
        return self._view


def empty(
    shape: int | Sequence[int],
    dtype: npt.DTypeLike = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
) -> NDArray:
    """A new array with undefined contents. Raises ArgumentError on an impossible shape or dtype."""
    place = _device(device)
    if mem_scope not in (None, "", "global"):
        raise ArgumentError(f"{place} has no memory scope {mem_scope!r}", hint='leave it out, or use "global"')
    extents = _shape(shape)
    name = dtype_name(dtype)
    handle = place.api.allocate(place, prod(extents) * storage_dtype(name).itemsize)
    return NDArray(extents, name, place, handle)


def array(
    arr: NDArray | npt.ArrayLike,
    device: Device | None = None,
    mem_scope: str | None = None,
    dtype: npt.DTypeLike | None = None,
) -> NDArray:
    """A new array on `device` (the CPU by default) with a copy of `arr`'s contents.

    The dtype is `arr`'s as numpy sees it, or `dtype`. Raises ArgumentError for dtypes kernels cannot have.
    """
    if isinstance(arr, NDArray) and (dtype is None or dtype_name(dtype) == arr.dtype):
        return arr.copyto(empty(arr.shape, arr.dtype, device, mem_scope))
    source = np.asarray(arr)
    return empty(source.shape, source.dtype if dtype is None else dtype, device, mem_scope).copyfrom(source)


def numpyasarray(np_data: AnyArray) -> NDArray:
    """A host array over numpy's memory, not copied; read-only if that is.
    Raises ArgumentError if not C-contiguous."""
    if not isinstance(np_data, np.ndarray):
        raise ArgumentError(f"a numpy array is wanted, not {type(np_data).__name__}")
    if not np_data.flags.c_contiguous:
        raise ArgumentError("cannot share this array: it is not C-contiguous", hint="`nd.array(x)` copies it")
    name = dtype_name(np_data.dtype)
    return NDArray(np_data.shape, name, cpu(), HostBuffer(np_data.reshape(-1).view(np.uint8)), owner=np_data)


def zeros(shape: int | Sequence[int], dtype: npt.DTypeLike = "float32", device: Device | None = None) -> NDArray:
    """A new array of zeros."""
    result = empty(shape, dtype, device)
    return result.copyfrom(np.zeros(result.shape, storage_dtype(result.dtype)))


def from_dlpack(source: Any) -> NDArray:
    """Share the memory of a host array that speaks DLPack, or of a capsule, without a copy.

    Such arrays are numpy's and torch's, among others. A capsule can be used once. Over read-only memory, the array is
    read-only. Raises ArgumentError when the memory cannot be shared: on another device, not C-contiguous, or of a dtype
    arrays cannot have.
    """
    shape, dtype, data = dlpack.take(source)
    return NDArray(shape, dtype_name(dtype), cpu(), HostBuffer(data), owner=data)


def _device(device: Device | None) -> Device:
    if device is None:
        return cpu()
    if not isinstance(device, Device):
        raise ArgumentError(f"a device is wanted, not {type(device).__name__}", hint="for instance `cpu(0)`")
    return device


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    items = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    extents = []
    for item in items:
        if isinstance(item, bool) or not hasattr(item, "__index__") or item.__index__() < 0:
            raise ArgumentError(f"the shape {items} is not made of non-negative integers")
        extents.append(item.__index__())
    return tuple(extents)


def _contiguous(values: AnyArray) -> AnyArray:
    # unlike numpy.ascontiguousarray, leaves arrays without dimensions as they are
    return values if values.flags.c_contiguous else values.copy()
