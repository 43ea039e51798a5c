"""Running compiled code: devices, arrays, modules, timing, the function registry.

Importing it loads nothing of the compiler: each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tunefarm.lazy_names import lazy_names

_NAMES = {
    "compiler.artifact": "Artifact",
    "compiler.driver.objects": "Array Map Object ObjectGeneric convert convert_to_object",
    "compiler.ir.object_path": "ObjectPath ObjectPathPair",
    "compiler.runtime.core.code.special_modules": "load_static_library system_lib",
    "compiler.runtime.core.device": (
        "Device cl cpu cuda device enabled ext_dev gpu hexagon metal mtl opencl rocm vpi vulkan webgpu"
    ),
    "compiler.runtime.core.module": "Module",
    "compiler.runtime.core.ndarray": "NDArray array empty from_dlpack Tensor=NDArray tensor=array",
    "compiler.runtime.core.packed": "PackedFunc",
    "compiler.runtime.core.registry": "get_global_func list_global_func_names register_func remove_global_func",
    "compiler.runtime.core.threads": "affinity num_threads set_affinity set_num_threads",
    "compiler.runtime.core.values": "DataType DataTypeCode ShapeTuple String",
    "compiler.runtime.files.params": (
        "load_param_dict load_param_dict_from_file save_param_dict save_param_dict_to_file"
    ),
    "compiler.runtime.load": "load_module",
    "compiler.runtime.measure.report": "Report",
    "compiler.runtime.measure.timing": "BenchmarkResult",
    "compiler.target.target": "Target",
    "compiler.tir.ops": "const",
}
_PARTS = "container module ndarray object object_generic packed_func params profiling relax_vm"

if TYPE_CHECKING:
    from compiler.artifact import Artifact
    from compiler.driver.objects import Array, Map, Object, ObjectGeneric, convert, convert_to_object
    from compiler.ir.object_path import ObjectPath, ObjectPathPair
    from compiler.runtime.core.code.special_modules import load_static_library, system_lib
    from compiler.runtime.core.device import (
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
    from compiler.runtime.core.module import Module
    from compiler.runtime.core.ndarray import NDArray, array, empty, from_dlpack
    from compiler.runtime.core.ndarray import NDArray as Tensor
    from compiler.runtime.core.ndarray import array as tensor
    from compiler.runtime.core.packed import PackedFunc
    from compiler.runtime.core.registry import (
        get_global_func,
        list_global_func_names,
        register_func,
        remove_global_func,
    )
    from compiler.runtime.core.threads import affinity, num_threads, set_affinity, set_num_threads
    from compiler.runtime.core.values import DataType, DataTypeCode, ShapeTuple, String
    from compiler.runtime.files.params import (
        load_param_dict,
        load_param_dict_from_file,
        save_param_dict,
        save_param_dict_to_file,
    )
    from compiler.runtime.load import load_module
    from compiler.runtime.measure.report import Report
    from compiler.runtime.measure.timing import BenchmarkResult
    from compiler.target.target import Target
    from compiler.tir.ops import const
    from tunefarm.runtime import (
        container,
        module,
        ndarray,
        object,
        object_generic,
        packed_func,
        params,
        profiling,
        relax_vm,
    )

__all__ = [
    "Array", "Artifact", "BenchmarkResult", "DataType", "DataTypeCode", "Device", "Map", "Module", "NDArray", "Object",
    "ObjectGeneric", "ObjectPath", "ObjectPathPair", "PackedFunc", "Report", "ShapeTuple", "String", "Tensor",
    "affinity", "array", "cl", "const", "container", "convert", "convert_to_object", "cpu", "cuda", "device",
    "device_from_target", "empty", "enabled", "ext_dev", "from_dlpack", "get_global_func", "gpu", "hexagon",
    "list_global_func_names", "load_module", "load_param_dict", "load_param_dict_from_file", "load_static_library",
    "metal", "module", "mtl", "ndarray", "num_threads", "object", "object_generic", "opencl", "packed_func", "params",
    "profiling", "register_func", "relax_vm", "remove_global_func", "rocm", "save_param_dict",
    "save_param_dict_to_file", "set_affinity", "set_num_threads", "system_lib", "tensor", "vpi", "vulkan", "webgpu",
]  # fmt: skip


def device_from_target(target: Target | str, dev_id: int = 0) -> Device:
    """The device that runs a target's code."""
    from compiler.runtime.core.device import device
    from compiler.target.target import Target

    return device(Target(target).device_type, dev_id)


if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__, __dir__ = lazy_names(__name__, _NAMES, _PARTS, refusing(__name__))
