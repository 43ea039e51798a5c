"""Arrays on devices."""

from compiler.runtime.core.device import (
    cl,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    mtl,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from compiler.runtime.core.ndarray import NDArray, array, empty, from_dlpack, numpyasarray

__all__ = [
    "NDArray", "array", "cl", "cpu", "cuda", "device", "empty", "ext_dev", "from_dlpack", "gpu", "hexagon", "metal",
    "mtl", "numpyasarray", "opencl", "rocm", "vpi", "vulkan", "webgpu",
]  # fmt: skip
