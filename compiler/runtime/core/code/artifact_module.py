"""Modules made of an artifact: what the modules of all backends have in common."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, ClassVar, Generic, TypeVar

from compiler.artifact import Artifact
from compiler.errors import DeviceError
from compiler.runtime.core.code.kernel_function import KernelFunction
from compiler.runtime.core.device import Device, find_api
from compiler.runtime.core.module import Module
from compiler.runtime.measure.preprocess import preprocessor
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions, measure

F = TypeVar("F", bound=KernelFunction)
_SHARED = re.compile(r"^\s*\.shared[^;\n]*\.b8 (\S+)\[(\d+)\];", re.MULTILINE)


def _shared_memory(artifact: Artifact) -> Callable[[str], int]:
    """How many bytes of shared memory a kernel declares in the module's PTX."""
    sizes = _SHARED.findall(artifact.blobs.get("ptx", b"").decode("utf-8", "replace"))
    return lambda symbol: sum(int(size) for name, size in sizes if name.startswith(f"{symbol}_"))


class ArtifactModule(Module, Generic[F]):
    """The functions of an artifact that a backend has loaded, for devices of one type."""

    device_type: ClassVar[str]
    runs_on: ClassVar[str]
    """The devices in words, as messages name them."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__()
        self.artifact = artifact
        self._functions: dict[str, F] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.get_function_list())}>"

    @abstractmethod
    def _make(self, name: str) -> F:
        """Make the function of the entry `name`."""

    def get_function_list(self) -> list[str]:
        return [entry.name for entry in self.artifact.entries]

    def _find(self, name: str) -> F | None:
        function = self._functions.get(name)
        if function is None and name in self.get_function_list():
            function = self._functions[name] = self._make(name)
        return function

    def set_cuda_props(
        self, max_shared_memory_per_block: int | None = None, max_threads_per_block: int | None = None
    ) -> None:
        """Check that every GPU kernel of the module fits these limits of a device.
        Raises DeviceError naming a kernel that needs more."""
        static = _shared_memory(self.artifact)
        for launch in (launch for entry in self.artifact.entries for launch in entry.launches):
            needs = [
                ("bytes of shared memory", max_shared_memory_per_block, launch.shared_bytes + static(launch.symbol)),
                ("threads", max_threads_per_block, prod(launch.block)),
            ]
            for what, most, needed in needs:
                if most is not None and needed > most:
                    raise DeviceError(
                        f"the kernel {launch.symbol} needs {needed:,} {what} in a block; {most:,} are allowed",
                        hint="schedule it with smaller tiles",
                        detail={"kernel": launch.symbol, "needed": needed, "most": most},
                    )

    def _check_device(self, dev: Device) -> None:
        """Raise DeviceError for a device that this module's functions cannot be timed on."""
        wanted = self.device_type
        if not isinstance(dev, Device) or dev.device_type != wanted or dev.api is not find_api(wanted):
            raise DeviceError(
                f"this module runs on {self.runs_on}; it cannot be timed on {dev}", hint=f"pass {wanted}(0)"
            )

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        self._check_device(dev)
        function = self.get_function(func_name, query_imports=True)
        preprocess = preprocessor(options.f_preproc)
        if not isinstance(function, KernelFunction) or function.device_type != dev.device_type:
            raise DeviceError(f"{func_name} does not run on {dev}")

        def evaluate(*args: Any) -> BenchmarkResult:
            call = function.bind(args, dev)
            found = measure(
                run=call.timed,
                options=options,
                prepare=lambda: None if preprocess is None else preprocess(*args),
                threads=call.threads,
            )
            disturbed = call.warnings()
            return replace(found, warnings=(*found.warnings, *disturbed)) if disturbed else found

        return evaluate
