"""The driver of the CUDA runtime.

The interface between code that is tested anywhere and calls that need a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from compiler.launches import TensorMap


class Driver(Protocol):
    """One process's access to its NVIDIA GPUs. Handles are the driver's own.

    `stream` None is the default stream. Every method makes its device's context current. Raises DeviceError, with the
    driver's words, when a call fails; a failure may come from work submitted before.
    """

    def count(self) -> int:
        """How many devices there are."""

    def attribute(self, device: int, name: str) -> Any:
        """Return a property by its name in `compiler.runtime.core.device.Device`, or None.
        None means that the driver does not tell it."""

    def allocate(self, device: int, nbytes: int) -> tuple[int, Any]:
        """Allocate memory, and return (address, owner)."""

    def free(self, device: int, owner: Any) -> None: ...

    def pinned(self, device: int, nbytes: int) -> memoryview:
        """Host memory that the device reads and writes itself."""

    def copy_in(self, device: int, address: int, data: memoryview, stream: Any) -> None:
        """Copy from pinned memory; returns before it is done."""

    def copy_out(self, device: int, out: memoryview, address: int, stream: Any) -> None:
        """Copy to pinned memory; returns before it is done."""

    def copy_within(self, device: int, target: int, source: int, nbytes: int, stream: Any) -> None: ...

    def fill(self, device: int, address: int, value: int, nbytes: int, stream: Any) -> None:
        """Set each byte."""

    def synchronize(self, device: int, stream: Any) -> None:
        """Wait for a stream; for all the device's work where it is None."""

    def stream(self, device: int) -> Any: ...

    def event(self, device: int) -> Any: ...

    def record(self, device: int, event: Any, stream: Any) -> None: ...

    def wait(self, device: int, event: Any) -> None:
        """Wait until the device has come to `event`."""

    def elapsed_ns(self, device: int, start: Any, end: Any) -> int:
        """Return the nanoseconds between two events that are over."""

    def load(self, device: int, ptx: bytes) -> Any:
        """A module from PTX, compiled for the device. The error has the compiler's log."""

    def function(self, device: int, module: Any, symbol: str, shared_bytes: int, codes: str) -> Any:
        """A kernel, allowed that much dynamic shared memory.
        `codes`: one letter an argument, as of `struct`: P pointer, i, q, f, d, ...; T for what `tensor_map` made,
        which come first."""

    def launch(
        self, device: int, function: Any, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
        stream: Any, values: Sequence[int | float | bytes],
    ) -> None:  # fmt: skip
        """Start a kernel."""

    def tensor_map(self, device: int, described: TensorMap, address: int) -> bytes:
        """Return the description of a matrix that lets a kernel copy its tiles by itself."""

    def graph(self, device: int, submit: Callable[[Any], None]) -> Any | None:
        """Record the launches that `submit` makes on its stream, without running them.
        None if the driver cannot record them."""

    def replay(self, device: int, graph: Any, stream: Any) -> None:
        """Start what a graph holds, in its order."""
