"""The runtime's part of backends: what drives a kind of device, and loads and runs what was compiled for it."""

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
        """Return what serves devices of the kind's device type here; an AbsentAPI where there are none."""

    @abstractmethod
    def load(self, artifact: Artifact) -> Module:
        """Load an artifact's code. Raises ArtifactError when it cannot run here, or is not what it says."""

    def is_lost(self, device: Device) -> bool:
        """Tell whether a device of this process has failed for good, so that only a fresh process can use it."""
        return False

    def target_of(self, device: Device) -> Target:
        """Return the target that describes a device of this machine. Raises TargetError when it does not tell."""
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
