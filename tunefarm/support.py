"""Features of this build."""

from __future__ import annotations

import importlib
import platform
from types import ModuleType

from compiler.codegen.llvm.llvm import llvm_version
from compiler.runtime.core.device import enabled
from tunefarm.version import __version__

__all__ = ["describe", "libinfo"]

_HELPERS = frozenset({"cc", "clang", "ndk", "nvcc", "popen_pool", "tar", "utils"})
"""Modules that newer versions of Apache TVM keep here, and others in `contrib`."""


def __getattr__(name: str) -> ModuleType:
    if name in _HELPERS:
        return importlib.import_module(f"tunefarm.contrib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def libinfo() -> dict[str, str]:
    """The parts of this build by Apache TVM's options, with "ON", "OFF" or a version."""
    return {
        "TUNEFARM_VERSION": __version__,
        "LLVM_VERSION": llvm_version(),
        "USE_LLVM": "ON",
        "USE_CUDA": "ON" if enabled("cuda") else "OFF",
        "USE_RPC": "ON",
        "USE_OPENCL": "OFF",
        "USE_METAL": "OFF",
        "USE_VULKAN": "OFF",
        "USE_ROCM": "OFF",
        "USE_MICRO": "OFF",
    }


def describe() -> None:
    """Print the versions and the machine."""
    print(f"tunefarm {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for name, value in libinfo().items():
        print(f"  {name}: {value}")
