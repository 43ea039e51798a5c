"""Arrays on devices."""

from compiler.runtime.device import cpu, cuda, device
from compiler.runtime.ndarray import NDArray, array, empty

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty"]
