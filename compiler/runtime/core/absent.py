"""The device API of kinds of devices that cannot be used here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compiler.errors import DeviceError

if TYPE_CHECKING:
    from compiler.runtime.core.device import Device


class AbsentAPI:
    """Stands for a kind of device that cannot be used here. Every use raises an error that says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def _refuse(self, device: Device) -> DeviceError:
        return DeviceError(f"{device} cannot be used: {self.reason}")

    def exist(self, device: Device) -> bool:
        return False

    def allocate(self, device: Device, nbytes: int) -> Any:
        raise self._refuse(device)

    def free(self, device: Device, handle: Any) -> None:
        return None

    def copy_from_host(self, device: Device, handle: Any, data: memoryview) -> None:
        raise self._refuse(device)

    def copy_to_host(self, device: Device, handle: Any, out: memoryview) -> None:
        raise self._refuse(device)

    def copy_within(self, device: Device, source: Any, target: Any, nbytes: int) -> None:
        raise self._refuse(device)

    def sync(self, device: Device, stream: Any = None) -> None:
        raise self._refuse(device)

    def attribute(self, device: Device, name: str) -> Any:
        return None

    def create_stream(self, device: Device) -> Any:
        raise self._refuse(device)

    def free_stream(self, device: Device, stream: Any) -> None:
        raise self._refuse(device)

    def set_stream(self, device: Device, stream: Any) -> None:
        raise self._refuse(device)
