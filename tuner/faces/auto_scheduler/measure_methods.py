"""How states are built and measured."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from rpc_server.box.server import Server
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.trial_messages import MeasureRequest
from tracker.client import connect_tracker
from tracker.server import Tracker
from tuner.build import worker
from tuner.devices.fleet import DeviceSession
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.auto_scheduler.measure_callback import PythonBasedMeasureCallback
from tuner.faces.auto_scheduler.measure_types import BuildResult, MeasureInput, MeasureResult
from tuner.faces.common.engine import FaceBuilder, FaceRunner, MeasureOptionError, OnThisMachine, OnTracker
from tuner.faces.common.measure_error import MeasureErrorNo
from tuner.untuned import device_type

_LOCALHOST = "127.0.0.1"
_REGISTERED_S = 30.0
_OPEN_WAIT_S = 60.0


class ProgramBuilder(FaceBuilder):
    """Base of the builders."""

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Build states, and return the paths of their artifacts. The caller removes the files."""
        workers = self.open()
        try:
            waiting = [workers.submit(self._request(given)) for given in measure_inputs]
            return [_built(given, future.result()) for given, future in zip(measure_inputs, waiting)]
        finally:
            workers.close()

    def _request(self, given: MeasureInput) -> worker.BuildRequest:
        state = given.state
        func = worker.pack_func(state.schedule.func if isinstance(state, LoopState) else given.task.compute_dag.func)
        source: worker.Source = worker.FuncSource(func)
        if not isinstance(state, LoopState):
            source = worker.TraceSource(func, state.trace.to_json())
        return worker.BuildRequest(source, str(given.task.tuning_task.target), "main", self.timeout)


def _built(given: MeasureInput, built: worker.CandidateBuild) -> BuildResult:
    args = tuple(given.task.compute_dag.tensors)
    if built.artifact is None:
        return BuildResult(None, args, MeasureErrorNo.of(built.failure), built.text, built.seconds)
    path = Path(tempfile.mkdtemp(prefix="tunefarm-build-"), "main.tunefarm")
    path.write_bytes(built.artifact)
    return BuildResult(str(path), args, 0, "", built.seconds)


class ProgramRunner(FaceRunner):
    """Base of the runners."""

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        """Measure what was built, one after the other, on one device."""
        fleet = self.open()
        try:
            session = fleet.open(0, _OPEN_WAIT_S)
            try:
                return [self._measured(session, built) for built in build_results]
            finally:
                session.close()
        finally:
            fleet.close()

    def _measured(self, session: DeviceSession, built: BuildResult) -> MeasureResult:
        start = time.perf_counter()
        costs: tuple[float, ...] = ()
        number, text = MeasureErrorNo(built.error_no), built.error_msg
        if built.filename is not None:
            number, text, costs = self._timed(session, Path(built.filename))
        return MeasureResult(costs, number, text, built.time_cost + time.perf_counter() - start, time.time())

    def _timed(self, session: DeviceSession, path: Path) -> tuple[MeasureErrorNo, str, tuple[float, ...]]:
        try:
            artifact = Artifact.from_bytes(path.read_bytes())
            request = MeasureRequest(
                artifact=artifact.digest,
                options=self.evaluator(),
                timeout_s=self.timeout,
                device_type=device_type(artifact),
            )
            found = session.measure(request, (artifact,))
        except (TunefarmError, OSError) as error:
            return MeasureErrorNo.UNKNOWN_ERROR, str(error), ()
        return MeasureErrorNo.of(found.failure), found.text, () if found.failure is not None else tuple(found.costs)


class ProgramMeasurer:
    """A builder and a runner together, and the callbacks that are told of results."""

    def __init__(
        self, builder: ProgramBuilder, runner: ProgramRunner, callbacks: Sequence[PythonBasedMeasureCallback],
        verbose: int = 1, max_continuous_error: int | None = None,
    ) -> None:  # fmt: skip
        self.builder, self.runner, self.callbacks, self.verbose = builder, runner, list(callbacks), verbose
        self.max_continuous_error = max_continuous_error

    def measure(self, task: object, policy: Any, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Build and measure states. Raises SchedulerError when more than `max_continuous_error` in a row fail."""
        results = self.runner.run(inputs, self.builder.build(inputs, self.verbose), self.verbose)
        failed = 0
        for result in results:
            failed = failed + 1 if result.error_no else 0
            if self.max_continuous_error is not None and failed > self.max_continuous_error:
                raise SchedulerError(f"{failed} states in a row failed: {result.error_msg}")
        for callback in self.callbacks:
            callback.callback(policy, inputs, results)
        return results


class LocalBuilder(ProgramBuilder):
    """Builds states in `n_parallel` processes (None: one a core) within `timeout` seconds each.
    `build_func`, which names or is a linker, changes nothing: states are sent to devices as artifacts."""

    def __init__(
        self, timeout: float = 15, n_parallel: int | None = None, build_func: str | Callable[..., Any] = "default"
    ) -> None:
        super().__init__(timeout, n_parallel)
        if not callable(build_func) and build_func not in ("default", "ndk", "stackvm"):
            raise MeasureOptionError(f"build_func {build_func!r} is unknown", hint="known: default, ndk, stackvm")
        self.build_func = build_func


class LocalRunner(ProgramRunner, OnThisMachine):
    """Measures states in an isolated process of this machine, one at a time.
    See `FaceRunner` for the options."""

    def __init__(
        self, timeout: float = 10, number: int = 3, repeat: int = 1, min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False, device: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)


class RPCRunner(ProgramRunner, OnTracker):
    """Measures states on the devices that the tracker at `host`:`port` lends for `key`.
    `key` may be a capability expression. Up to `n_parallel` are used at once. Waiting runs of a higher `priority`
    are served first. `keys` are this machine's, on a farm with keys; see `FaceRunner` for the other options."""

    def __init__(
        self, key: str, host: str, port: int, priority: int = 1, n_parallel: int = 1, timeout: float = 10,
        number: int = 3, repeat: int = 1, min_repeat_ms: int = 100, cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False, device: int = 0, *, keys: KeyRing | None = None,
    ) -> None:  # fmt: skip
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)
        if n_parallel < 1:
            raise MeasureOptionError(f"n_parallel is at least 1, got {n_parallel}")
        self.key, self.host, self.port, self.priority = key, host, int(port), priority
        self.n_parallel = n_parallel
        self.keys = keys


class LocalRPCMeasureContext:
    """A tracker and a device server on this machine, and the `runner` that measures there.
    They end with the object: at `close`, the end of a `with`, or when it is collected."""

    def __init__(
        self, priority: int = 1, n_parallel: int = 1, timeout: float = 10, number: int = 3, repeat: int = 1,
        min_repeat_ms: int = 0, cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False, device: int = 0,
    ) -> None:  # fmt: skip
        key = "local-rpc"
        self.tracker = Tracker(_LOCALHOST, port=0, silent=True)
        try:
            address = (_LOCALHOST, self.tracker.port)
            self.server = Server(_LOCALHOST, port=0, tracker_addr=address, key=key, silent=True)
            try:
                _wait_for_device(address)
                self.runner = RPCRunner(
                    key, *address, priority, n_parallel, timeout, number, repeat, min_repeat_ms, cooldown_interval,
                    enable_cpu_cache_flush, device,
                )  # fmt: skip
            except BaseException:
                self.server.terminate()
                raise
        except BaseException:
            self.tracker.terminate()
            raise

    def close(self) -> None:
        """End the server and the tracker."""
        self.server.terminate()
        self.tracker.terminate()

    def __enter__(self) -> LocalRPCMeasureContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "runner"):
            self.close()


def _wait_for_device(address: tuple[str, int]) -> None:
    deadline = time.monotonic() + _REGISTERED_S
    with connect_tracker(*address) as session:
        while not session.devices():
            if time.monotonic() > deadline:
                raise SchedulerError(f"the server did not register at the tracker within {_REGISTERED_S:g} s")
            time.sleep(0.02)
