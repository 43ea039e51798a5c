"""tunefarm: tune and benchmark tensor kernels on a fleet of real machines.

`import tunefarm as tvm` gives Apache TVM's names for the parts tunefarm has. Importing it loads nothing heavy:
every name below is imported when it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunefarm.compatibility import absent

# public name -> module, or module:attribute
_NAMES = {
    "__version__": "tunefarm.version:__version__",
    "_ffi": "tunefarm._ffi",
    "arith": "tunefarm.arith",
    "auto_scheduler": "tunefarm.auto_scheduler",
    "autotvm": "tunefarm.autotvm",
    "dlight": "tunefarm.dlight",
    "driver": "tunefarm.driver",
    "container": "tunefarm.ir.container",
    "contrib": "tunefarm.contrib",
    "error": "tunefarm.error",
    "generic": "tunefarm.generic",
    "instrument": "tunefarm.instrument",
    "ir": "tunefarm.ir",
    "meta_schedule": "tunefarm.meta_schedule",
    "nd": "tunefarm.nd",
    "relax": "tunefarm.relax",
    "relay": "tunefarm.relay",
    "rpc": "tunefarm.rpc",
    "runtime": "tunefarm.runtime",
    "s_tir": "tunefarm.s_tir",
    "script": "tunefarm.script",
    "support": "tunefarm.support",
    "target": "tunefarm.target",
    "te": "tunefarm.te",
    "testing": "tunefarm.testing",
    "tir": "tunefarm.tir",
    "sym": "tunefarm.arith",
    "tirx": "tunefarm.tirx",
    "topi": "tunefarm.topi",
    "transform": "tunefarm.transform",
    "IRModule": "compiler.ir.module:IRModule",
    "TVMError": "compiler.errors:TunefarmError",
    "TunefarmError": "compiler.errors:TunefarmError",
    "TuningRun": "tunefarm.notebook:TuningRun",
    "FamilyKernel": "tunefarm.family_kernel:FamilyKernel",
    "kernel": "tunefarm.family_kernel:kernel",
    "load_run": "tunefarm.notebook:load_run",
    "Target": "tunefarm.target:Target",
    "DataType": "compiler.runtime.core.values:DataType",
    "String": "compiler.runtime.core.values:String",
    "build": "tunefarm.driver.building:build",
    "compile": "compiler.driver.graph:compile_module",
    "lower": "compiler.driver.build:lower",
    "cl": "compiler.runtime.core.device:cl",
    "cpu": "compiler.runtime.core.device:cpu",
    "cuda": "compiler.runtime.core.device:cuda",
    "device": "compiler.runtime.core.device:device",
    "ext_dev": "compiler.runtime.core.device:ext_dev",
    "gpu": "compiler.runtime.core.device:gpu",
    "hexagon": "compiler.runtime.core.device:hexagon",
    "metal": "compiler.runtime.core.device:metal",
    "mtl": "compiler.runtime.core.device:mtl",
    "opencl": "compiler.runtime.core.device:opencl",
    "rocm": "compiler.runtime.core.device:rocm",
    "vpi": "compiler.runtime.core.device:vpi",
    "vulkan": "compiler.runtime.core.device:vulkan",
    "webgpu": "compiler.runtime.core.device:webgpu",
    "get_global_func": "compiler.runtime.core.registry:get_global_func",
    "register_func": "compiler.runtime.core.registry:register_func",
    "register_global_func": "compiler.runtime.core.registry:register_func",
}

__all__ = [name for name in _NAMES if name != "_ffi"]

if TYPE_CHECKING:  # the same names for type checkers and editors
    from compiler.driver.build import lower as lower
    from compiler.driver.graph import compile_module as compile  # noqa: F401
    from compiler.errors import TunefarmError as TunefarmError
    from compiler.ir.module import IRModule as IRModule
    from compiler.runtime.core.device import cl as cl
    from compiler.runtime.core.device import cpu as cpu
    from compiler.runtime.core.device import cuda as cuda
    from compiler.runtime.core.device import device as device
    from compiler.runtime.core.device import ext_dev as ext_dev
    from compiler.runtime.core.device import gpu as gpu
    from compiler.runtime.core.device import hexagon as hexagon
    from compiler.runtime.core.device import metal as metal
    from compiler.runtime.core.device import mtl as mtl
    from compiler.runtime.core.device import opencl as opencl
    from compiler.runtime.core.device import rocm as rocm
    from compiler.runtime.core.device import vpi as vpi
    from compiler.runtime.core.device import vulkan as vulkan
    from compiler.runtime.core.device import webgpu as webgpu
    from compiler.runtime.core.registry import get_global_func as get_global_func
    from compiler.runtime.core.registry import register_func as register_func
    from compiler.runtime.core.registry import register_func as register_global_func  # noqa: F401
    from compiler.runtime.core.values import DataType as DataType
    from compiler.runtime.core.values import String as String
    from compiler.target.target import Target as Target
    from tunefarm import arith as arith
    from tunefarm import arith as sym  # noqa: F401
    from tunefarm import auto_scheduler as auto_scheduler
    from tunefarm import autotvm as autotvm
    from tunefarm import contrib as contrib
    from tunefarm import dlight as dlight
    from tunefarm import driver as driver
    from tunefarm import error as error
    from tunefarm import generic as generic
    from tunefarm import instrument as instrument
    from tunefarm import ir as ir
    from tunefarm import meta_schedule as meta_schedule
    from tunefarm import nd as nd
    from tunefarm import relax as relax
    from tunefarm import relay as relay
    from tunefarm import rpc as rpc
    from tunefarm import runtime as runtime
    from tunefarm import s_tir as s_tir
    from tunefarm import script as script
    from tunefarm import support as support
    from tunefarm import target as target
    from tunefarm import te as te
    from tunefarm import testing as testing
    from tunefarm import tir as tir
    from tunefarm import tirx as tirx
    from tunefarm import topi as topi
    from tunefarm import transform as transform
    from tunefarm.driver.building import build as build
    from tunefarm.error import TVMError as TVMError
    from tunefarm.family_kernel import FamilyKernel as FamilyKernel
    from tunefarm.family_kernel import kernel as kernel
    from tunefarm.ir import container as container
    from tunefarm.notebook import TuningRun as TuningRun
    from tunefarm.notebook import load_run as load_run
    from tunefarm.version import __version__ as __version__


def __getattr__(name: str) -> Any:
    where = _NAMES.get(name)
    if where is None:
        raise AttributeError(absent("tunefarm", name))
    module_name, _, attribute = where.partition(":")
    module = importlib.import_module(module_name)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})


def _check_neighbours() -> None:
    """Check that tunefarm's packages are the ones installed with it, not others of the same name."""
    home = Path(__file__).resolve().parent.parent
    for name in ("compiler", "rpc_server", "tracker", "tuner", "webui"):
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent.parent if spec is not None and spec.origin else None
        if found != home:
            where = found / name if found else "nowhere"
            raise ImportError(
                f"tunefarm needs its own package {name!r} from {home}, but Python finds it at {where}; "
                f"rename or remove the other one, or start Python from another folder"
            )


_check_neighbours()
