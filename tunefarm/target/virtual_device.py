"""Where data lies: a device, the target of the code that uses it, and a scope of its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.runtime.core.device import Device
from compiler.target.target import Target

__all__ = ["VirtualDevice"]


@dataclass(frozen=True)
class VirtualDevice:
    """A device, a target and a scope of memory; each may be left open."""

    device: Device | None = None
    target: Target | None = None
    memory_scope: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.target, str):
            object.__setattr__(self, "target", Target(self.target))

    @property
    def device_type_int(self) -> int:
        """The number that DLPack gives the device's type; -1 without a device."""
        return -1 if self.device is None else self.device.type_code

    @property
    def device_type(self) -> Any:
        """The same number, under TVM's other name."""
        return self.device_type_int

    @property
    def virtual_device_id(self) -> int:
        """Which of the devices of its type it is; -1 without a device."""
        return -1 if self.device is None else int(self.device.device_id)
