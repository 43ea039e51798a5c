"""How configs are built and measured.

The builder, the runners, and measuring a list of configs at once.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from rpc_server.box.server import Server
from rpc_server.wire.keys import KeyRing
from tracker.server import Tracker
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.module_loading import DefaultModuleLoader, ModuleLoader
from tuner.faces.autotvm.own_measuring import OwnBuilder, OwnRunner, measured, measures_itself
from tuner.faces.autotvm.task import Task
from tuner.faces.common.engine import FaceBuilder, FaceRunner, MeasureOptionError, OnThisMachine, OnTracker

Builder = OwnBuilder
Runner = OwnRunner
_LINKERS = ("default", "ndk", "stackvm")


class LocalBuilder(OwnBuilder):
    """Builds configs in `n_parallel` processes (None: one a core) within `timeout` seconds each.

    A `build_func` that is a function links each kernel: `build_func(file, objects)`, the file's name ending with its
    `output_format`. It, `build_kwargs` (see `OwnBuilder`) and an overridden `build` are called in this process, a round
    at a time, and devices load the files. The named ones ("default", "ndk", "stackvm") link nothing: devices are sent
    artifacts. `do_fork` and `runtime` are ignored; accepted for compatibility with TVM. Raises MeasureOptionError.
    """

    def __init__(
        self, timeout: float = 10, n_parallel: int | None = None, build_kwargs: Mapping[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default", do_fork: bool = False, runtime: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(timeout, n_parallel, build_kwargs)
        if not callable(build_func) and build_func not in _LINKERS:
            raise MeasureOptionError(f"build_func {build_func!r} is unknown", hint=f"known: {', '.join(_LINKERS)}")
        self.build_func = build_func
        self.link = None if isinstance(build_func, str) else build_func
        self.do_fork = do_fork
        self.runtime = runtime


class LocalRunner(OwnRunner, OnThisMachine):
    """Measures configs in an isolated process of this machine, one at a time.

    See `FaceRunner` for the options. A tracker and a server on loopback stand for a farm where files are loaded: with a
    `module_loader` of the program's own, and after a builder that makes files. They end with the runner.
    """

    _devices = OnThisMachine._devices
    _KEY = "local"

    def __init__(
        self, timeout: float = 10, number: int = 4, repeat: int = 3, min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1, enable_cpu_cache_flush: bool = False, module_loader: ModuleLoader | None = None,
    ) -> None:  # fmt: skip
        timing = (number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        super().__init__(timeout, None, *timing, module_loader=module_loader)
        self._farm: tuple[Tracker, Server] | None = None

    def remote_kwargs(self) -> dict[str, Any]:
        """Return the arguments of `request_remote` for a device here; starts the tracker and the server once."""
        if self._farm is None:
            tracker = Tracker("127.0.0.1", port=0, silent=True)
            at = ("127.0.0.1", tracker.port)
            self._farm = tracker, Server("127.0.0.1", port=0, tracker_addr=at, key=self._KEY, silent=True)
            weakref.finalize(self, _stop, *self._farm)
        port = self._farm[0].port
        return {"device_key": self._KEY, "host": "127.0.0.1", "port": port, "priority": 1, "timeout": self.timeout}


class RPCRunner(OwnRunner, OnTracker):
    """Measures configs on the devices that the tracker at `host`:`port` lends for `key`.
    `key` may be a capability expression. Up to `n_parallel` (None: all there are) are used at once. Waiting runs of
    a higher `priority` are served first. `keys` are this machine's, on a farm with keys; see `FaceRunner` for the
    other options."""

    _devices = OnTracker._devices

    def __init__(
        self, key: str, host: str, port: int, priority: int = 1, timeout: float = 10, n_parallel: int | None = None,
        number: int = 4, repeat: int = 3, min_repeat_ms: int = 0, cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False, module_loader: ModuleLoader | None = None, *, keys: KeyRing | None = None,
    ) -> None:  # fmt: skip
        timing = (number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        super().__init__(timeout, n_parallel, *timing, module_loader=module_loader)
        if n_parallel is not None and n_parallel < 1:
            raise MeasureOptionError(f"n_parallel is at least 1, got {n_parallel}")
        self.key, self.host, self.port, self.priority = key, host, int(port), priority
        self.n_parallel = n_parallel
        self.keys = keys

    def remote_kwargs(self) -> dict[str, Any]:
        """Return the arguments of `request_remote` for these devices."""
        where = {"device_key": self.key, "host": self.host, "port": self.port}
        return {**where, "priority": self.priority, "timeout": self.timeout}

    def loader(self) -> ModuleLoader:
        found = super().loader()
        if isinstance(found, DefaultModuleLoader) and found.keys is None:
            found.keys = self.keys
        return found


def _stop(tracker: Tracker, server: Server) -> None:
    server.terminate()
    tracker.terminate()


def measure_option(builder: FaceBuilder | str, runner: FaceRunner | str) -> dict[str, Any]:
    """How to measure, for `tune` and `create_measure_batch`.
    "local" stands for `LocalBuilder()` and `LocalRunner()`. Raises MeasureOptionError for anything else."""
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
    """Measures lists of inputs of one task: `batch(inputs)` gives their results in order.
    Workers and devices are held from the first call until `close`, or the end of a `with`."""

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
