"""Host memory: the device API of CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from compiler.errors import DeviceError

if TYPE_CHECKING:
    from compiler.runtime.core.device import Device

ALIGNMENT = 64
_HUGE_PAGE = 1 << 21
_LARGE = 1 << 22  # from here on numpy asks the kernel for huge pages


class HostBuffer:
    """Host memory, as an array of bytes and the address of its first one."""

    __slots__ = ("_data", "_elements", "address")

    def __init__(self, data: npt.NDArray[np.uint8], address: int | None = None) -> None:
        self._data: npt.NDArray[np.uint8] | None = data
        self._elements: npt.NDArray[Any] | None = None
        self.address: int = data.ctypes.data if address is None else address

    @classmethod
    def of_elements(cls, elements: npt.NDArray[Any], address: int) -> HostBuffer:
        """The memory of a C-contiguous array. The view of its bytes is made on first use."""
        made = cls.__new__(cls)
        made._data = None
        made._elements = elements
        made.address = address
        return made

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes."""
        if self._data is None:
            assert self._elements is not None
            self._data = self._elements.reshape(-1).view(np.uint8)
        return self._data


class HostAPI:
    """CPU devices. All of them share the host's memory, so any index exists. Handles are HostBuffers."""

    def exist(self, device: Device) -> bool:
        return True

    def allocate(self, device: Device, nbytes: int) -> HostBuffer:
        # whole huge pages from the first byte on: fewer address translations in walks down columns
        alignment = _HUGE_PAGE if nbytes >= _LARGE else ALIGNMENT
        try:
            raw = np.empty(nbytes + alignment, np.uint8)
        except (MemoryError, ValueError):
            raise DeviceError(f"{device} cannot allocate {nbytes:,} bytes") from None
        address: int = raw.ctypes.data
        start = -address % alignment
        return HostBuffer(raw[start : start + nbytes], address + start)

    def free(self, device: Device, handle: HostBuffer) -> None:
        return None  # goes with its last reference

    def copy_from_host(self, device: Device, handle: HostBuffer, data: memoryview) -> None:
        handle.data[: data.nbytes] = np.frombuffer(data, np.uint8)

    def copy_to_host(self, device: Device, handle: HostBuffer, out: memoryview) -> None:
        np.frombuffer(out, np.uint8)[:] = handle.data[: out.nbytes]

    def copy_within(self, device: Device, source: HostBuffer, target: HostBuffer, nbytes: int) -> None:
        target.data[:nbytes] = source.data[:nbytes]

    def sync(self, device: Device, stream: Any = None) -> None:
        return None  # every call has finished when it returns

    def attribute(self, device: Device, name: str) -> Any:
        return None

    def create_stream(self, device: Device) -> Any:
        return None

    def free_stream(self, device: Device, stream: Any) -> None:
        return None

    def set_stream(self, device: Device, stream: Any) -> None:
        return None
