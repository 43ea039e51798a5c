"""The kernels of a suite, built for a device.

With its best configs, or untuned; and the calibration kernel.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.errors import TunefarmError
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.bench.models import ModelBuilds
from tuner.bench.suites import Config, Suite
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.untuned import runnable

_CHAIN = """
@T.prim_func
def calibration(x: T.Buffer((1,), "float32")):
    for i in range(262144):
        x[0] = x[0] * T.float32(0.999) + T.float32(0.5)
"""


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel for one target and device class.
    `reference` is the untuned build that it is checked against; None when it is untuned itself. Without an artifact
    `problem` says why."""

    task: TuningTask
    artifact: Artifact | None = None
    reference: Artifact | None = None
    digest: str = ""
    problem: str = ""

    @property
    def how(self) -> str:
        return "tuned" if self.digest else "untuned"


class KernelBuilds:
    """Builds each kernel once for each target and device class, and `models` likewise. Safe in any thread."""

    def __init__(self, suite: Suite, store: RecordStore) -> None:
        self.models = ModelBuilds(suite, store)
        self._suite = suite
        self._store = store
        self._lock = threading.Lock()
        self._built: dict[tuple[str, str], tuple[BuiltKernel, ...]] = {}
        self._calibration: dict[str, Artifact] = {}

    def kernels(self, target: str, device_class: str) -> tuple[BuiltKernel, ...]:
        """The suite's kernels, in its order."""
        with self._lock:
            key = (target, device_class)
            if key not in self._built:
                tasks = [TuningTask.from_spec(kernel, target) for kernel in self._suite.kernels]
                self._built[key] = tuple(self._build(task, device_class, self._suite.config) for task in tasks)
            return self._built[key]

    def calibration(self, target: str) -> Artifact:
        """Return a chain of multiplications and additions, each of which waits for the one before.
        So its time is the clock's, whatever the compiler, the caches and the neighbours do."""
        with self._lock:
            if target not in self._calibration:
                self._calibration[target] = compile_artifact(runnable(self._chain, Target(target)), target, name="main")
            return self._calibration[target]

    @cached_property
    def _chain(self) -> PrimFunc:
        func = from_source(_CHAIN)
        assert isinstance(func, PrimFunc)
        return func

    def _build(self, task: TuningTask, device_class: str, config: Config) -> BuiltKernel:
        try:
            untuned = compile_artifact(runnable(task.func, task.target), task.target, name="main")
            best = self._store.best.look_up(task.key, str(task.target), device_class) if config == "best" else None
            if best is None or best.config is None:
                return BuiltKernel(task, untuned)
            func = apply_trace(task.func, Trace.from_json(best.config.trace)).func
            return BuiltKernel(task, compile_artifact(func, task.target, name="main"), untuned, best.config.digest)
        except TunefarmError as error:
            return BuiltKernel(task, problem=f"{error.kind}: {error.message}")
