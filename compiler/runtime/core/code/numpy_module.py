"""Functions in Python as artifacts: references to compare kernels with, such as a call of numpy.

They run where machine code does, in executors. Their text only runs once a function is bound to arguments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from compiler.artifact import PYTHON, Artifact, EntryPoint
from compiler.errors import ArtifactError
from compiler.runtime.core.arguments import packer_for
from compiler.runtime.core.code.artifact_module import ArtifactModule
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.code.kernel_function import BoundCall, KernelFunction
from compiler.runtime.core.device import Device
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.measure.preprocess import flush_caches


class NumpyFunction(KernelFunction):
    """A function over numpy arrays. It writes into its outputs, or returns them, several as a tuple."""

    device_type: ClassVar[str] = "cpu"

    def __init__(self, entry: EntryPoint, text: bytes) -> None:
        self.name = entry.name
        self.entry = entry
        self._text = text

    def __call__(self, *args: Any) -> None:
        NumpyCall(self, args).call()

    def bind(self, args: tuple[Any, ...], place: Device) -> NumpyCall:
        """See `KernelFunction.bind`. All CPU devices are this machine's."""
        return NumpyCall(self, args)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function that the text defines. Raises KernelError when it raises, or defines no such function."""
        names: dict[str, Any] = {"__name__": self.entry.symbol}
        try:
            exec(compile(self._text, f"{self.entry.symbol}.py", "exec"), names)
        except Exception as error:
            raise _failure(self.entry.symbol, error) from error
        found = names.get(self.entry.symbol)
        if not callable(found):
            raise KernelError(f"the source defines no function {self.entry.symbol}")
        return found  # type: ignore[no-any-return]


class NumpyCall(BoundCall):
    """A function in Python with checked arguments."""

    def __init__(self, function: NumpyFunction, arguments: tuple[Any, ...]) -> None:
        packer_for(function.entry).pack(arguments)  # which checks them
        self._symbol, self._function = function.entry.symbol, function.function
        self._arguments = arguments
        self._arrays = [np.asarray(each) if isinstance(each, NDArray) else each for each in arguments]
        self._outputs = [self._arrays[at] for at in function.entry.outputs]

    def call(self) -> None:
        try:
            made = self._function(*self._arrays)
            if made is not None:
                self._keep(made if isinstance(made, tuple) else (made,))
        except Exception as error:
            raise _failure(self._symbol, error) from error

    def _keep(self, results: tuple[Any, ...]) -> None:
        """Copy what the function returned. Raises ValueError or TypeError for what its outputs do not hold."""
        if len(results) != len(self._outputs):
            raise ValueError(f"it returned {len(results)} results, not {len(self._outputs)}")
        for output, result in zip(self._outputs, results):
            if np.shape(result) != output.shape:
                raise ValueError(f"it returned the shape {np.shape(result)}, not {output.shape}")
            np.copyto(output, result, casting="same_kind")

    def timed(self, number: int) -> int:
        before = time.perf_counter_ns()
        for _ in range(number):
            self.call()
        return time.perf_counter_ns() - before

    def flush(self) -> None:
        flush_caches([argument for argument in self._arguments if isinstance(argument, NDArray)])


class NumpyModule(ArtifactModule[NumpyFunction]):
    """An artifact's functions in Python."""

    type_key = "python"
    device_type = "cpu"
    runs_on = "the CPU"

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        if PYTHON not in artifact.blobs:
            raise ArtifactError("the artifact holds no source in Python")

    def get_source(self, fmt: str = "") -> str:
        """Return the Python that defines the functions. Raises ArtifactError for another format than "py"."""
        if fmt.lower() not in ("", "py"):
            raise ArtifactError(f"the module has no source in format {fmt!r}", hint="it has: py")
        return self.artifact.blobs[PYTHON].decode("utf-8")

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the module to a file: as an artifact, which `load_module` reads, or its source, "py"."""
        path = Path(file_name)
        wanted = (fmt or path.suffix.removeprefix(".") or "tunefarm").lower()
        data = self.artifact.to_bytes() if wanted == "tunefarm" else self.get_source(wanted).encode("utf-8")
        path.write_bytes(data)

    def _make(self, name: str) -> NumpyFunction:
        return NumpyFunction(self.artifact.entry(name), self.artifact.blobs[PYTHON])


def _failure(symbol: str, error: Exception) -> KernelError:
    return KernelError(f"{symbol} raised {type(error).__name__}: {error}")
