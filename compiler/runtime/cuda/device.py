"""NVIDIA GPUs behind the device API: memory, copies through pinned staging, streams.

Copies go in pieces through two pinned buffers: while the device copies one, the host fills or empties the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from compiler.errors import DeviceError
from compiler.runtime.core.absent import AbsentAPI
from compiler.runtime.core.device_memory import DeviceMemory
from compiler.runtime.cuda.driver import Driver

if TYPE_CHECKING:
    from compiler.runtime.core.device import Device

STAGING_BYTES = 4 << 20


class _Staging:
    """Two pinned buffers of a device, each with the event after which it is free again."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.lock = threading.Lock()
        self.buffers = [driver.pinned(device, STAGING_BYTES) for _ in range(2)]
        self.events = [driver.event(device) for _ in range(2)]


class CudaAPI:
    """The device API of CUDA devices. Handles are DeviceMemory."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._count = driver.count()
        self._staging: dict[int, _Staging] = {}
        self._lock = threading.Lock()
        self._streams = threading.local()

    # -- devices -----------------------------------------------------------------------------------
    def exist(self, device: Device) -> bool:
        return device.device_id < self._count

    def attribute(self, device: Device, name: str) -> Any:
        return self.driver.attribute(self._number(device), name)

    def _number(self, device: Device) -> int:
        if device.device_id >= self._count:
            raise DeviceError(f"{device} does not exist: this machine has {self._count} CUDA devices")
        return device.device_id

    # -- memory ------------------------------------------------------------------------------------
    def allocate(self, device: Device, nbytes: int) -> DeviceMemory:
        address, owner = self.driver.allocate(self._number(device), max(nbytes, 1))
        return DeviceMemory(address, nbytes, owner)

    def free(self, device: Device, handle: DeviceMemory) -> None:
        """Give memory back. A device that has failed has lost it already."""
        try:
            self.driver.free(device.device_id, handle.owner)
        except DeviceError:
            return

    def copy_from_host(self, device: Device, handle: DeviceMemory, data: memoryview) -> None:
        number, stream, source = self._number(device), self.stream(device), data.cast("B")
        staging = self._staging_of(number)

        def piece(buffer: memoryview, start: int, size: int) -> None:
            buffer[:size] = source[start : start + size]
            self.driver.copy_in(number, handle.address + start, buffer[:size], stream)

        with staging.lock:
            self._in_pieces(number, staging, stream, source.nbytes, piece, lambda *_: None)

    def copy_to_host(self, device: Device, handle: DeviceMemory, out: memoryview) -> None:
        number, stream, target = self._number(device), self.stream(device), out.cast("B")
        staging = self._staging_of(number)

        def piece(buffer: memoryview, start: int, size: int) -> None:
            self.driver.copy_out(number, buffer[:size], handle.address + start, stream)

        def arrived(buffer: memoryview, start: int, size: int) -> None:
            target[start : start + size] = buffer[:size]

        with staging.lock:
            self._in_pieces(number, staging, stream, target.nbytes, piece, arrived)

    def _in_pieces(
        self, number: int, staging: _Staging, stream: Any, nbytes: int, begin: Callable[[memoryview, int, int], None],
        finish: Callable[[memoryview, int, int], None],
    ) -> None:  # fmt: skip
        """Call `begin` for each piece, and `finish` when the device is done, one piece behind."""
        pending: list[tuple[int, int, int]] = []
        for turn, start in enumerate(range(0, nbytes, STAGING_BYTES)):
            slot, size = turn % 2, min(STAGING_BYTES, nbytes - start)
            if len(pending) == 2:
                self._finish(number, staging, pending.pop(0), finish)
            begin(staging.buffers[slot], start, size)
            self.driver.record(number, staging.events[slot], stream)
            pending.append((slot, start, size))
        for item in pending:
            self._finish(number, staging, item, finish)

    def _finish(
        self, number: int, staging: _Staging, item: tuple[int, int, int], finish: Callable[[memoryview, int, int], None]
    ) -> None:
        slot, start, size = item
        self.driver.wait(number, staging.events[slot])
        finish(staging.buffers[slot], start, size)

    def _staging_of(self, number: int) -> _Staging:
        with self._lock:
            found = self._staging.get(number)
            if found is None:
                found = self._staging[number] = _Staging(self.driver, number)
            return found

    def copy_within(self, device: Device, source: DeviceMemory, target: DeviceMemory, nbytes: int) -> None:
        number = self._number(device)
        self.driver.copy_within(number, target.address, source.address, nbytes, self.stream(device))

    # -- streams -----------------------------------------------------------------------------------
    def sync(self, device: Device, stream: Any = None) -> None:
        self.driver.synchronize(self._number(device), stream)

    def create_stream(self, device: Device) -> Any:
        return self.driver.stream(self._number(device))

    def free_stream(self, device: Device, stream: Any) -> None:
        """Release a stream. It ends with its last reference. This thread stops using it."""
        if self.stream(device) is stream:
            self.set_stream(device, None)

    def set_stream(self, device: Device, stream: Any) -> None:
        chosen: dict[int, Any] = self._streams.__dict__.setdefault("chosen", {})
        chosen[self._number(device)] = stream

    def stream(self, device: Device) -> Any:
        """The stream this thread submits to; None is the default one."""
        chosen: dict[int, Any] = self._streams.__dict__.get("chosen", {})
        return chosen.get(device.device_id)


def find_cuda() -> CudaAPI | AbsentAPI:
    """The API over this machine's driver. Where CUDA cannot be used, an absent one that says why."""
    from compiler.runtime.cuda.pycuda_driver import (  # looked for where a CUDA device is asked for, and not before
        open_driver,
    )

    try:
        driver = open_driver()
        return CudaAPI(driver)
    except DeviceError as error:
        return AbsentAPI(error.message)
