"""The memories of a session, by handle."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device, device
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.host import HostBuffer
from compiler.runtime.core.ndarray import NDArray
from rpc_server.errors import HandleError, ProtocolError
from rpc_server.wire.codec import Buffer
from rpc_server.wire.machine_messages import MemoryRef
from rpc_server.wire.messages import AllocateMemory, CopyMemory


class Memory:
    """Device memory that a client reads and writes in chunks.

    Device APIs move whole allocations. Host memory is reached directly; another device's goes through a copy
    on the host, filled or flushed when a transfer reaches its start or end.
    """

    def __init__(self, place: Device, nbytes: int) -> None:
        if nbytes < 0:
            raise ArgumentError(f"{nbytes} bytes cannot be allocated")
        self.device = place
        self.nbytes = nbytes
        self.handle = place.api.allocate(place, nbytes)
        self._owned = True
        self._staging: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        self._views: dict[tuple[str, tuple[int, ...]], NDArray] = {}

    @staticmethod
    def of(array: NDArray) -> Memory:
        """An array's own memory, which the array frees."""
        made = Memory.__new__(Memory)
        made.device = array.device
        made.nbytes = array.nbytes
        made.handle = array.handle
        made._owned = False
        made._staging = None
        made._views = {(array.dtype, array.shape): array}
        return made

    def write(self, offset: int, data: memoryview) -> None:
        self._check(offset, len(data))
        source = np.frombuffer(data, np.uint8)
        if isinstance(self.handle, HostBuffer):
            self.handle.data[offset : offset + len(data)] = source
            return
        staging = self._stage()
        staging[offset : offset + len(data)] = source
        if offset + len(data) == self.nbytes:
            self.device.api.copy_from_host(self.device, self.handle, staging.data)
            self._staging = None

    def read(self, offset: int, nbytes: int) -> Buffer:
        """The bytes, not copied where that is possible."""
        self._check(offset, nbytes)
        if isinstance(self.handle, HostBuffer):
            return self.handle.data[offset : offset + nbytes].data
        staging = self._stage()
        if offset == 0:
            self.device.api.copy_to_host(self.device, self.handle, staging.data)
        part = bytes(staging[offset : offset + nbytes].data)
        if offset + nbytes == self.nbytes:
            self._staging = None
        return part

    def array(self, dtype: str, shape: tuple[int, ...]) -> NDArray:
        """The memory as an array. Raises ArgumentError when it does not hold just that many bytes."""
        view = self._views.get((dtype, shape))
        if view is None:
            if min(shape, default=1) < 0 or prod(shape) * storage_dtype(dtype).itemsize != self.nbytes:
                raise ArgumentError(f"{self.nbytes} bytes of remote memory are no {dtype} array of shape {shape}")
            view = self._views[dtype, shape] = NDArray(shape, dtype, self.device, self.handle, owner=self)
        return view

    def free(self) -> None:
        if self._owned:
            self.device.api.free(self.device, self.handle)

    def _check(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise ProtocolError(f"bytes {offset} to {offset + nbytes} are outside a memory of {self.nbytes} bytes")

    def _stage(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        if self._staging is None:
            self._staging = np.empty(self.nbytes, np.uint8)
        return self._staging


class Memories:
    """A client's memory on the box: memories under its handles, and arrays that functions gave it."""

    def __init__(self) -> None:
        self._memories: dict[int, Memory] = {}
        self._next_own = -1

    def __getitem__(self, handle: int) -> Memory:
        """The memory under a handle. Raises HandleError where there is none."""
        try:
            return self._memories[handle]
        except KeyError:
            raise HandleError(
                f"the session has no array {handle}: it was freed, or lost when its executor crashed"
            ) from None

    def allocate(self, request: AllocateMemory) -> None:
        """Make a memory. Raises ProtocolError for a handle that is in use."""
        if request.handle in self._memories:
            raise ProtocolError(f"array handle {request.handle} is in use")
        place = device(request.device_type, request.device_id)
        self._memories[request.handle] = Memory(place, request.nbytes)

    def lend(self, array: NDArray) -> MemoryRef:
        """Put an array under a handle of its own, a negative number, and return what a client needs of it."""
        handle, self._next_own = self._next_own, self._next_own - 1
        self._memories[handle] = Memory.of(array)
        place = array.device
        return MemoryRef(handle, array.dtype, array.shape, place.device_type, place.device_id)

    def free(self, handle: int) -> None:
        """Forget a memory; harmless for a handle that is none."""
        if (memory := self._memories.pop(handle, None)) is not None:
            memory.free()

    def copy(self, request: CopyMemory) -> None:
        """Copy from one memory to another. Raises ProtocolError where one is too small."""
        source, target = self[request.source], self[request.target]
        if not 0 <= request.nbytes <= min(source.nbytes, target.nbytes):
            raise ProtocolError(f"cannot copy {request.nbytes} bytes from {source.nbytes} to {target.nbytes}")
        if source.device == target.device:
            place = source.device
            place.api.copy_within(place, source.handle, target.handle, request.nbytes)
        else:
            target.write(0, memoryview(source.read(0, request.nbytes)))
