"""How configs are built and measured: the builder, the runners, and measuring a list of configs at once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from rpc_server.wire.keys import KeyRing
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.own_measuring import OwnBuilder, OwnRunner, measured, measures_itself
from tuner.faces.autotvm.task import Task
from tuner.faces.common.engine import FaceBuilder, FaceRunner, MeasureOptionError, OnThisMachine, OnTracker

Builder = OwnBuilder
Runner = OwnRunner
_LINKERS = ("default", "ndk", "stackvm")


class DefaultModuleLoader:
    """Stands for how devices load kernels: `module_loader=default_module_loader()` says what is done anyway."""


def default_module_loader(pre_load_function: Callable[..., Any] | None = None) -> DefaultModuleLoader:
    """How devices load kernels. Raises MeasureOptionError for a function that is to run on them before."""
    if pre_load_function is not None:
        raise MeasureOptionError(
            "a device runs no function of yours before it loads a kernel", hint="prepare it before the run"
        )
    return DefaultModuleLoader()


class LocalBuilder(OwnBuilder):
    """Builds configs in `n_parallel` processes (None: one a core) within `timeout` seconds each; one that overrides
    `build` is called instead.

    Devices are sent artifacts, so nothing is linked: `build_func` (a linker or its name), `build_kwargs`, `do_fork` and
    `runtime` are kept for programs that give them, and change nothing. Raises MeasureOptionError.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Mapping[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        super().__init__(timeout, n_parallel, build_kwargs)
        if not callable(build_func) and build_func not in _LINKERS:
            raise MeasureOptionError(f"build_func {build_func!r} is unknown", hint=f"known: {', '.join(_LINKERS)}")
        self.build_func = build_func
        self.do_fork = do_fork
        self.runtime = runtime


class LocalRunner(OwnRunner, OnThisMachine):
    """Measures configs in an isolated process of this machine, one at a time; see `FaceRunner` for the options.
    `module_loader` is None or `default_module_loader()`: artifacts are not loaded by user code."""

    _devices = OnThisMachine._devices

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: DefaultModuleLoader | None = None,
    ) -> None:
        super().__init__(timeout, None, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        _no_loader(module_loader)
        self.module_loader = module_loader


class RPCRunner(OwnRunner, OnTracker):
    """Measures configs on the devices that the tracker at `host`:`port` lends for `key` (or a capability expression),
    up to `n_parallel` at once (None: all there are). Of those who wait for a device, a higher `priority` is served
    first. `keys` are this machine's where the farm uses them; see `FaceRunner` for the other options."""

    _devices = OnTracker._devices

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: DefaultModuleLoader | None = None,
        *,
        keys: KeyRing | None = None,
    ) -> None:
        timing = (number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        super().__init__(timeout, n_parallel, *timing)
        _no_loader(module_loader)
        if n_parallel is not None and n_parallel < 1:
            raise MeasureOptionError(f"n_parallel is at least 1, got {n_parallel}")
        self.key, self.host, self.port, self.priority = key, host, int(port), priority
        self.n_parallel = n_parallel
        self.module_loader = module_loader
        self.keys = keys


def _no_loader(module_loader: Any) -> None:
    if module_loader is not None and not isinstance(module_loader, DefaultModuleLoader):
        raise MeasureOptionError("a device loads artifacts itself", hint="module_loader is default_module_loader()")


def measure_option(builder: FaceBuilder | str, runner: FaceRunner | str) -> dict[str, Any]:
    """How to measure, for `tune` and `create_measure_batch`. "local" stands for `LocalBuilder()` and `LocalRunner()`.
    Raises MeasureOptionError for anything else."""
    builder = LocalBuilder() if builder == "local" else builder
    runner = LocalRunner() if runner == "local" else runner
    if not isinstance(builder, FaceBuilder):
        raise MeasureOptionError(f"not a builder: {builder!r}", hint='pass "local" or autotvm.LocalBuilder(…)')
    if not isinstance(runner, FaceRunner):
        raise MeasureOptionError(
            f"not a runner: {runner!r}", hint='pass "local", autotvm.LocalRunner(…) or autotvm.RPCRunner(…)'
        )
    return {"builder": builder, "runner": runner}


def opened_parts(option: Mapping[str, Any]) -> tuple[FaceBuilder, FaceRunner]:
    """The builder and runner of an option. Raises MeasureOptionError for anything but a `measure_option`."""
    if not isinstance(option, Mapping) or set(option) != {"builder", "runner"}:
        raise MeasureOptionError("a measure option comes from autotvm.measure_option(builder=…, runner=…)")
    checked = measure_option(option["builder"], option["runner"])
    return checked["builder"], checked["runner"]


class MeasureBatch:
    """Measures lists of inputs of one task: `batch(inputs)` gives their results in order. Workers and devices are
    held from the first call until `close`, or the end of a `with`."""

    def __init__(self, task: Task, option: Mapping[str, Any]) -> None:
        self.task = task
        self.builder, self.runner = opened_parts(option)
        self.n_parallel = self.builder.n_parallel
        self._held = ExitStack()
        self._closing = weakref.finalize(self, _close_in, os.getpid(), self._held)
        self._open: tuple[Any, Any] | None = None

    def __call__(self, measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        from tuner.faces.autotvm.engine_face import measure_on_engine

        for inp in measure_inputs:
            if inp.task.workload != self.task.workload:
                raise ConfigError(f"an input is of {inp.task.workload}, the batch measures {self.task.workload}")
        if not measure_inputs:
            return []
        if measures_itself(self.builder, self.runner):
            return measured(self.task, measure_inputs, self.builder, self.runner)
        if self._open is None:
            builder, fleet = self.builder.open(), self.runner.open()
            self._held.callback(builder.close)
            self._held.callback(fleet.close)
            self._open = builder, fleet
        return measure_on_engine(self.task, measure_inputs, self.builder, self.runner, *self._open)

    def close(self) -> None:
        """Give workers and devices back."""
        self._open = None
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close_in(pid: int, held: ExitStack) -> None:
    """A fork's copy of a batch must not close what its parent holds."""
    if os.getpid() == pid:
        held.close()


def create_measure_batch(task: Task, option: Mapping[str, Any]) -> MeasureBatch:
    """A function that measures a list of `MeasureInput` of `task`; see `MeasureBatch`."""
    return MeasureBatch(task, option)
