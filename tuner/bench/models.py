"""The models of a suite.

Built for a device with their best configs, run whole, and profiled by kernel.

A model's end-to-end time is one series of a device, under the model's file name. Each of its kernels has a series
beside it, `FILE:KERNEL`, so that a slower model can be traced to the kernel that became slower.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from compiler.driver.graph import build_graph
from compiler.driver.kernel_schedules import KernelSchedules, asked, kernel_schedules
from compiler.errors import TunefarmError
from compiler.frontend.model_files import read_model_file
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.text.print_func import workload_key
from tuner.bench.suites import Suite
from tuner.records.store import RecordStore

LEAST_SHARE = 0.1
"""Part of a model's loss that a kernel must explain to be named."""


@dataclass(frozen=True)
class BenchModel:
    """A model built for one target and device class.
    Without a `path`, `problem` says why. `digest` is over the configs it was built with; "" where none was known."""

    name: str
    path: Path | None = None
    digest: str = ""
    problem: str = ""

    @property
    def how(self) -> str:
        return "tuned" if self.digest else "untuned"


class ModelBuilds:
    """Builds each model once for each target and device class.
    Safe in any thread; `close` removes the files."""

    def __init__(self, suite: Suite, store: RecordStore) -> None:
        self._suite = suite
        self._store = store
        self._lock = threading.Lock()
        self._folder: TemporaryDirectory[str] | None = None
        self._built: dict[tuple[str, str], tuple[BenchModel, ...]] = {}

    def models(self, target: str, device_class: str) -> tuple[BenchModel, ...]:
        """The suite's models, in its order."""
        with self._lock:
            key = (target, device_class)
            if key not in self._built:
                self._built[key] = tuple(self._build(path, target, device_class) for path in self._suite.models)
            return self._built[key]

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                self._folder.cleanup()
            self._folder, self._built = None, {}

    def _build(self, file: Path, target: str, device_class: str) -> BenchModel:
        digests: list[str] = []

        def find(func: PrimFunc, _: Target) -> PrimFunc | None:
            if self._suite.config != "best":
                return None
            best = self._store.best.look_up(workload_key(func), target, device_class)
            if best.config is None:
                return None
            digests.append(best.config.digest)
            return apply_trace(func, Trace.from_json(best.config.trace)).func

        try:
            source = read_model_file(str(file))
            with kernel_schedules(KernelSchedules(find, asked().pick, asked().prepare)):
                executable = build_graph(source.module, Target(target).resolved(), exec_mode="compiled")
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="tunefarm-bench-")
            path = Path(self._folder.name) / f"{file.stem}-{len(self._built)}.tunefarm"
            executable.export_library(str(path))
        except TunefarmError as error:
            return BenchModel(file.name, problem=f"{error.kind}: {error.message}")
        digest = sha256(" ".join(digests).encode()).hexdigest() if digests else ""
        return BenchModel(file.name, path, digest)


def slower_kernels(before: Mapping[str, float], now: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """The kernels that a model's loss comes from, by two profiles in seconds: name, time before, time now.

    The largest loss comes first. Each explains at least a tenth of the loss of all kernels together. A new kernel
    counts with all of its time, because another one was split into it, or was not fused.
    """
    losses = {name: seconds - before.get(name, 0.0) for name, seconds in now.items()}
    whole = sum(now.values()) - sum(before.values())
    named = [name for name, loss in losses.items() if loss > max(0.0, LEAST_SHARE * whole)]
    return [(name, before.get(name, 0.0), now[name]) for name in sorted(named, key=lambda name: -losses[name])]
