"""Functions of artifacts: how every backend runs and times them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from compiler.artifact import EntryPoint
from compiler.runtime.core.device import Device
from compiler.runtime.core.packed import PackedFunc


class BoundCall(ABC):
    """A function with checked arguments, for any number of calls.

    It keeps the arguments alive. Methods raise KernelError or DeviceError when the function fails.
    """

    threads: int = 1
    """How many threads of this machine the function may run on."""

    @abstractmethod
    def call(self) -> None:
        """Run it once, to its end."""

    @abstractmethod
    def timed(self, number: int) -> int:
        """Run it `number` times. Returns nanoseconds."""

    @abstractmethod
    def flush(self) -> None:
        """Empty the caches that the arguments may be in."""

    def environment(self) -> dict[str, float]:
        """Return numbers that may explain an unusual time, beside those of the host."""
        return {}

    def warnings(self) -> tuple[str, ...]:
        """Describe what may have disturbed the last measurement, besides what the host tells."""
        return ()


class KernelFunction(PackedFunc):
    """One entry of an artifact, loaded. It writes its outputs into its arguments."""

    device_type: ClassVar[str]
    """The type of the devices that it runs on."""
    entry: EntryPoint

    @abstractmethod
    def bind(self, args: tuple[Any, ...], place: Device) -> BoundCall:
        """Check the arguments, for calls on `place`. Raises ArgumentError naming one that does not fit."""
