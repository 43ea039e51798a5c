"""Running compiled code: devices, arrays, modules, timing, the function registry."""

from compiler.artifact import Artifact
from compiler.runtime import profiling
from compiler.runtime.device import (
    Device,
    cl,
    cpu,
    cuda,
    device,
    enabled,
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
from compiler.runtime.module import Module, PackedFunc, load_module
from compiler.runtime.ndarray import NDArray, array, empty, from_dlpack
from compiler.runtime.registry import get_global_func, list_global_func_names, register_func, remove_global_func
from compiler.runtime.report import Report
from compiler.runtime.threads import affinity, num_threads, set_affinity, set_num_threads
from compiler.runtime.timing import BenchmarkResult

__all__ = [
    "Artifact",
    "BenchmarkResult",
    "Device",
    "Module",
    "NDArray",
    "PackedFunc",
    "Report",
    "affinity",
    "array",
    "cl",
    "cpu",
    "cuda",
    "device",
    "empty",
    "enabled",
    "ext_dev",
    "from_dlpack",
    "get_global_func",
    "gpu",
    "hexagon",
    "list_global_func_names",
    "load_module",
    "metal",
    "mtl",
    "num_threads",
    "opencl",
    "profiling",
    "register_func",
    "remove_global_func",
    "rocm",
    "set_affinity",
    "set_num_threads",
    "vpi",
    "vulkan",
    "webgpu",
]  # fmt: skip
