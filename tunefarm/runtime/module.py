"""Modules that run, and how they are loaded."""

from compiler.runtime.core.code.special_modules import load_static_library, system_lib
from compiler.runtime.core.device import enabled
from compiler.runtime.core.module import Module, ModulePropertyMask
from compiler.runtime.core.threads import num_threads
from compiler.runtime.load import load_module
from compiler.runtime.measure.timing import BenchmarkResult

__all__ = [
    "BenchmarkResult", "Module", "ModulePropertyMask", "enabled", "load_module", "load_static_library", "num_threads",
    "system_lib",
]  # fmt: skip
