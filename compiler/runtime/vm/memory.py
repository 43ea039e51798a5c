"""Memory of the virtual machine: storages, of which arrays take parts, and a pool of free storages."""

from __future__ import annotations

import sys
import threading
from typing import Any

from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device
from compiler.runtime.core.device_memory import DeviceMemory
from compiler.runtime.core.host import ALIGNMENT, HostBuffer
from compiler.runtime.core.ndarray import ArrayKind, NDArray

ALLOCATORS = ("pooled", "naive")
_KEPT_BYTES = 1 << 30  # a device's free storages beyond this are given back


class Storage:
    """Bytes on a device. Arrays in it keep it alive."""

    __slots__ = ("_memory", "device", "handle", "nbytes", "reserved")

    def __init__(self, device: Device, handle: Any, nbytes: int, reserved: int, memory: MachineMemory | None) -> None:
        self.device = device
        self.handle = handle
        self.nbytes = nbytes
        self.reserved = reserved
        self._memory = memory

    def tensor(self, offset: int, shape: tuple[int, ...], dtype: str) -> NDArray:
        """An array of the bytes from `offset` on. Raises ArgumentError where it would leave the storage."""
        kind = ArrayKind.of(shape, dtype)
        size = kind.nbytes
        if offset < 0 or offset + size > self.nbytes:
            raise ArgumentError(f"{dtype}{list(shape)} from byte {offset} on leaves a storage of {self.nbytes} bytes")
        handle = self.handle
        if isinstance(handle, HostBuffer):
            if not (handle.address + offset) % ALIGNMENT:
                return NDArray.part(kind, handle.data, offset, handle.address + offset, self.device, self)
            part = HostBuffer(handle.data[offset : offset + size], handle.address + offset)
            return NDArray(shape, dtype, self.device, part, owner=self)
        if isinstance(handle, DeviceMemory):
            return NDArray(shape, dtype, self.device, DeviceMemory(handle.address + offset, size), owner=self)
        if offset:
            raise ArgumentError(f"an array on {self.device} begins where its storage does, not at byte {offset}")
        return NDArray(shape, dtype, self.device, handle, owner=self)

    def __del__(self) -> None:
        memory = getattr(self, "_memory", None)
        if memory is not None:
            memory.take_back(self)
        elif not isinstance(self.handle, HostBuffer):
            self.device.api.free(self.device, self.handle)


class MachineMemory:
    """Storages of a machine.
    With a pool, a storage that nobody uses any more serves the next request of its size."""

    def __init__(self, pooled: dict[Device, bool]) -> None:
        self._pooled = pooled
        self._free: dict[tuple[Device, int], list[Any]] = {}
        self._kept: dict[Device, int] = {}
        self._lock = threading.Lock()

    def allocate(self, device: Device, nbytes: int) -> Storage:
        """A storage of at least `nbytes`. Raises DeviceError when there is no memory."""
        if not self._pooled.get(device, True):
            return Storage(device, device.api.allocate(device, nbytes), nbytes, nbytes, None)
        reserved = _rounded(nbytes)
        with self._lock:
            free = self._free.get((device, reserved))
            handle = free.pop() if free else None
            if handle is not None:
                self._kept[device] -= reserved
        if handle is None:
            handle = device.api.allocate(device, reserved)
        return Storage(device, handle, nbytes, reserved, self)

    def take_back(self, storage: Storage) -> None:
        """Keep a storage's memory for the next of its size, as far as there is room. Never raises."""
        device, reserved = storage.device, storage.reserved
        if isinstance(storage.handle, HostBuffer) and is_shared(storage.handle):
            return  # numpy or another library still looks at it
        with self._lock:
            kept = self._kept.get(device, 0)
            if kept + reserved <= _KEPT_BYTES:
                self._kept[device] = kept + reserved
                self._free.setdefault((device, reserved), []).append(storage.handle)
                return
        if not isinstance(storage.handle, HostBuffer):
            device.api.free(device, storage.handle)

    def clear(self) -> None:
        """Give the kept memory back."""
        with self._lock:
            free, self._free, self._kept = self._free, {}, {}
        for (device, _), handles in free.items():
            for handle in handles:
                if not isinstance(handle, HostBuffer):
                    device.api.free(device, handle)


def is_shared(buffer: HostBuffer) -> bool:
    """Return whether arrays other than the buffer's own look at its memory.
    Each refers to the array that owns it."""
    return sys.getrefcount(buffer.data.base) > 2  # the buffer's array, and the argument


def _rounded(nbytes: int) -> int:
    """Round sizes up to steps of an eighth, so that near sizes share storages."""
    if nbytes <= 4096:
        return 4096
    step = 1 << max(nbytes.bit_length() - 4, 6)
    return -(-nbytes // step) * step
