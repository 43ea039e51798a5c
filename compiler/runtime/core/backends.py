"""The runtime's part of backends: drivers of devices, and loaders of compiled code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from compiler.errors import TargetError
from compiler.target import entry_points
from compiler.target.backend_table import BackendTable

if TYPE_CHECKING:
    from compiler.artifact import Artifact
    from compiler.runtime.core.device import Device, DeviceAPI
    from compiler.runtime.core.module import Module
    from compiler.target.target import Target


class DeviceBackend(ABC):
    """The device side of a target kind. It knows nothing of how code was made: boxes have only this part."""

    @abstractmethod
    def open_api(self) -> DeviceAPI:
        """Return the device API for the kind's device type on this machine; an AbsentAPI without such devices."""

    @abstractmethod
    def load(self, artifact: Artifact) -> Module:
        """Load an artifact's code.
        Raises ArtifactError if it cannot run here, or differs from its description."""

    def is_lost(self, device: Device) -> bool:
        """Tell whether a device of this process has failed for good, so that only a fresh process can use it."""
        return False

    def target_of(self, device: Device) -> Target:
        """Return the target that describes a device of this machine.
        Raises TargetError if the device does not tell."""
        raise TargetError(f"a {device.device_type} device does not tell its target", hint="write the target out")


DEVICE_BACKENDS: BackendTable[DeviceBackend] = BackendTable(
    {
        "llvm": "compiler.runtime.core.code.cpu_module:CPU",
        "c": "compiler.runtime.core.code.cpu_module:CPU",
        "stackvm": "compiler.runtime.core.code.cpu_module:CPU",
        "cuda": "compiler.runtime.cuda.module:CUDA",
        "nvptx": "compiler.runtime.cuda.module:CUDA",
    },
    entry_points.DEVICE_GROUP,
)
"""Who loads the artifacts of a target kind. Of a device type, the first kind's backend drives the devices."""
