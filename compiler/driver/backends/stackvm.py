"""Modules that run in the interpreter: target "stackvm", for where no machine code is wanted.

A module of this kind has the same argument checks as compiled ones. It is slow, it stays in this process, and what
`time_evaluator` measures is Python at work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.artifact import Artifact, EntryPoint
from compiler.driver.backend import Backend, Lowered
from compiler.errors import ArtifactError, CodegenError, DeviceError
from compiler.interp.interpreter import compile_func
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.runtime.core.arguments import packer_for
from compiler.runtime.core.device import Device, find_api
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.measure.preprocess import preprocessor
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions, measure
from compiler.tir import nodes as n


class InterpretedFunction(PackedFunc):
    """A function run by the interpreter."""

    def __init__(self, entry: EntryPoint, func: n.PrimFunc) -> None:
        self.name = entry.name
        self.entry = entry
        self._func = func
        self._packer = packer_for(entry)

    def __call__(self, *args: Any) -> None:
        """Check the arguments and run. Raises ArgumentError naming one that does not fit, OutOfBounds,
        AssertionFailed."""
        self._packer.pack(args)
        compile_func(self._func)(*map(_plain, args))


def _plain(arg: Any) -> Any:
    """Return an array's own memory as a numpy array, which the interpreter writes to; a number as it is."""
    return np.asarray(arg) if isinstance(arg, NDArray) else arg


class InterpretedModule(Module):
    """Lowered functions, run by the interpreter."""

    type_key = "stackvm"
    format = "tir"

    def __init__(self, module: IRModule, entries: Mapping[str, EntryPoint]) -> None:
        super().__init__()
        self._module = module
        self._entries = dict(entries)

    def __repr__(self) -> str:
        return f"<InterpretedModule {', '.join(self.get_function_list())}>"

    def get_function_list(self) -> list[str]:
        return list(self._entries)

    def _find(self, name: str) -> InterpretedFunction | None:
        entry = self._entries.get(name)
        return None if entry is None else InterpretedFunction(entry, n.prim_funcs(self._module)[GlobalVar(name)])

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        if not isinstance(dev, Device) or dev.api is not find_api("cpu"):
            raise DeviceError(f"this module runs in this process; it cannot be timed on {dev}", hint="pass cpu(0)")
        function = self.get_function(func_name, query_imports=True)
        preprocess = preprocessor(options.f_preproc)

        def evaluate(*args: Any) -> BenchmarkResult:
            def run(number: int) -> int:
                start = time.perf_counter_ns()
                for _ in range(number):
                    function(*args)
                return time.perf_counter_ns() - start

            return measure(run, options, lambda: None if preprocess is None else preprocess(*args))

        return evaluate

    def get_source(self, fmt: str = "") -> str:
        """The lowered functions ("tir", the only format). Raises ArtifactError for another."""
        if fmt.lower() not in ("", "tir"):
            raise ArtifactError(f"an interpreted module has no source in format {fmt!r}", hint="it has: tir")
        return self._module.script()

    def get_ir(self) -> str:
        """The lowered functions."""
        return self.get_source("tir")

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the functions' text.
        Raises ArtifactError for another format, because there is no machine code to load elsewhere."""
        wanted = (fmt or Path(file_name).suffix.removeprefix(".")).lower()
        if wanted != "tir":
            raise ArtifactError(
                f"an interpreted module cannot be saved as {wanted or 'a module'!r}: it has no machine code",
                hint='build with target="llvm" to save, export or upload it; fmt="tir" saves its text',
            )
        Path(file_name).write_text(self._module.script(), encoding="utf-8")


class StackVMBackend(Backend):
    """A backend without code: lowered functions run in the interpreter, in the process that built them."""

    def prepare(self, module: IRModule) -> IRModule:
        """Return `module` as it is: nothing is gained by packing operands ahead."""
        return module

    def generate(self, lowered: Lowered, keep: Sequence[str]) -> Artifact:
        raise CodegenError(
            "target stackvm makes no code to send or save: its modules run in the process that built them",
            hint='build for target="llvm"',
        )

    def build(self, lowered: Lowered) -> InterpretedModule:
        return InterpretedModule(lowered.module, {entry.name: entry for entry in lowered.entries})


STACKVM = StackVMBackend()
