"""Runners by the names people know; candidates are measured on the engine's fleets."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from rpc_server.client.session import RPCSession
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tracker.client import TrackerSession, connect_tracker
from tuner.devices.fleet import DeviceSession, Fleet
from tuner.devices.supplies import LocalFleet, TrackerFleet
from tuner.errors import TuningError, UnknownKindError
from tuner.faces.meta_schedule.hooks import EvaluatorConfig, RunHooks, run_here, run_remotely
from tuner.faces.meta_schedule.measure_types import RunnerFuture, RunnerInput, RunnerResult
from tuner.faces.meta_schedule.own_engine import OwnFleet
from tuner.untuned import device_type

_OPEN_WAIT_S = 60.0
Hook = Callable[..., Any] | str | None
"""A function of the program's, or the name of a registered one."""


@dataclass(frozen=True)
class RPCConfig:
    """The tracker and the key of its devices.
    Missing values come from TVM_TRACKER_HOST, _PORT and _KEY."""

    tracker_host: str | None = None
    tracker_port: int | str | None = None
    tracker_key: str | None = None
    session_priority: int = 1
    session_timeout_sec: int = 10

    def address(self) -> tuple[str, int, str]:
        """Host, port and key. Raises TuningError when one is nowhere."""
        host = self.tracker_host or os.environ.get("TVM_TRACKER_HOST")
        port = self.tracker_port or os.environ.get("TVM_TRACKER_PORT")
        key = self.tracker_key or os.environ.get("TVM_TRACKER_KEY")
        if not host or not port or not key:
            raise TuningError(
                "an RPCConfig needs the tracker's host and port and a device key",
                hint="RPCConfig(tracker_host=..., tracker_port=..., tracker_key=...), or TVM_TRACKER_HOST, "
                "TVM_TRACKER_PORT and TVM_TRACKER_KEY",
            )
        return host, int(port), key

    def connect_tracker(self) -> TrackerSession:
        """Connect to the tracker. Raises ConnectError, TuningError."""
        host, port, _ = self.address()
        return connect_tracker(host, port)

    def connect_server(self) -> RPCSession:
        """Lease a device of the key.
        Raises ConnectError, TuningError, and LeaseRefused where none is free in time."""
        *_, key = self.address()
        return self.connect_tracker().request(key, self.session_priority, self.session_timeout_sec)

    def count_num_servers(self, allow_missing: bool = True) -> int:
        """Count the devices that the tracker has for the key.

        Raises TuningError where there is none and `allow_missing` is false.
        """
        *_, key = self.address()
        with self.connect_tracker() as tracker:
            count = sum(key in (device.key, "*") for device in tracker.devices())
        if not count and not allow_missing:
            raise TuningError(f"the tracker has no device of key {key!r}", hint="`tunefarm devices` lists them")
        return count


class PyRunnerFuture(RunnerFuture):
    """Base of futures that a program writes: override `done` and `result`."""

    def __init__(self) -> None:
        """Take nothing; `__init__` need not be called by one that a subclass has."""


class Runner(ABC):
    """The contract: every input gets its result, in order; one that fails is a result too."""

    RunnerType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

    def __init__(self, timeout_sec: float, evaluator_config: EvaluatorConfig | None, cooldown_sec: float) -> None:
        self.timeout_sec = timeout_sec
        self.asked = evaluator_config
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.cooldown_sec = cooldown_sec

    @abstractmethod
    def fleet(self) -> Fleet:
        """The devices, for the engine, which closes them.
        Raises TunefarmError when no device can be asked for."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Measure all of `runner_inputs`, one after the other, on one device."""
        fleet = self.fleet()
        try:
            session = fleet.open(0, _OPEN_WAIT_S)
            try:
                return [RunnerFuture.of(self._measure(session, given)) for given in runner_inputs]
            finally:
                session.close()
        finally:
            fleet.close()

    def _measure(self, session: DeviceSession, given: RunnerInput) -> RunnerResult:
        try:
            artifact = Artifact.from_bytes(Path(given.artifact_path).read_bytes())
            request = MeasureRequest(
                artifact=artifact.digest,
                options=self.evaluator(),
                timeout_s=self.timeout_sec,
                device_type=device_type(artifact),
            )
            measured = session.measure(request, (artifact,))
        except (TunefarmError, OSError) as error:
            return RunnerResult(None, str(error))
        if measured.failure is not None:
            return RunnerResult(None, f"{measured.failure}: {measured.text}")
        return RunnerResult(list(measured.costs), None)

    def evaluator(self) -> EvaluatorOptions:
        """The evaluator's options as the device takes them."""
        config = self.evaluator_config
        return EvaluatorOptions(
            number=config.number,
            repeat=config.repeat,
            min_repeat_ms=config.min_repeat_ms,
            cooldown_interval_ms=round(1000 * self.cooldown_sec),
            flush_cache=config.enable_cpu_cache_flush,
        )

    @staticmethod
    def create(kind: Literal["local", "rpc"] = "local", *args: Any, **kwargs: Any) -> Runner:
        """The runner called `kind`. Raises TuningError for another name."""
        match kind:
            case "local":
                return LocalRunner(*args, **kwargs)
            case "rpc":
                return RPCRunner(*args, **kwargs)
        raise UnknownKindError(f"no runner {kind!r}", hint='there are "local" and "rpc"')


class LocalRunner(Runner):
    """This machine, in a process of its own, so that a crash costs one candidate.
    `alloc_repeat` is kept for its name: arguments are filled once a candidate.

    The functions do a part of it instead, in a process that is forked for the candidate; each is a function or
    the name of a registered one. `f_alloc_argument(device, args_info, alloc_repeat)` makes lists of arguments,
    `f_run_evaluator(module, device, evaluator_config, repeated_args)` returns seconds, `f_cleanup()` comes last, and
    `initializer()` first.
    """

    def __init__(
        self, timeout_sec: float = 30, evaluator_config: EvaluatorConfig | None = None, cooldown_sec: float = 0.0,
        alloc_repeat: int = 1, f_alloc_argument: Hook = None, f_run_evaluator: Hook = None, f_cleanup: Hook = None,
        initializer: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(timeout_sec, evaluator_config, cooldown_sec)
        self.alloc_repeat = alloc_repeat
        self._hooks = RunHooks(
            alloc_argument=f_alloc_argument, run_evaluator=f_run_evaluator, cleanup=f_cleanup, initializer=initializer
        )

    def fleet(self) -> Fleet:
        return OwnFleet("LocalRunner", self.run) if self._hooks.any() else LocalFleet()

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        if not self._hooks.any():
            return super().run(runner_inputs)
        return [
            RunnerFuture.of(run_here(self._hooks, given, self.evaluator_config, self.alloc_repeat, self.timeout_sec))
            for given in runner_inputs
        ]


class RPCRunner(Runner):
    """Devices that a tracker lends.
    `max_workers` is kept for its name: every device that matches is used. `keys` are this machine's where the farm
    uses them (default: those of this machine's keys folder, if it has one).

    The functions do a part of it instead, as those of `LocalRunner`, with the session before the device:
    `f_create_session(rpc_config)` and `f_upload_module(session, local_path, remote_path)` come first, and
    `f_cleanup(session, remote_path)` last.
    """

    def __init__(
        self, rpc_config: RPCConfig | None = None, evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0, alloc_repeat: int = 1, f_create_session: Hook = None, f_upload_module: Hook = None,
        f_alloc_argument: Hook = None, f_run_evaluator: Hook = None, f_cleanup: Hook = None,
        max_workers: int | None = None, initializer: Callable[[], Any] | None = None, *, keys: KeyRing | None = None,
    ) -> None:  # fmt: skip
        self.rpc_config = rpc_config or RPCConfig()
        super().__init__(self.rpc_config.session_timeout_sec, evaluator_config, cooldown_sec)
        self.alloc_repeat = alloc_repeat
        self.max_workers = max_workers
        self.keys = keys
        self._hooks = RunHooks(
            f_create_session, f_upload_module, f_alloc_argument, f_run_evaluator, f_cleanup, initializer
        )

    def fleet(self) -> Fleet:
        if self._hooks.any():
            return OwnFleet("RPCRunner", self.run)
        return TrackerFleet(*self.rpc_config.address(), keys=self.keys)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        if not self._hooks.any():
            return super().run(runner_inputs)
        return [
            RunnerFuture.of(
                run_remotely(
                    self._hooks,
                    given,
                    self.evaluator_config,
                    self.alloc_repeat,
                    self.timeout_sec,
                    self.rpc_config.connect_server,
                    self.rpc_config,
                )
            )
            for given in runner_inputs
        ]


def remove(path: str) -> None:
    """Remove a built artifact and the folder made for it."""
    shutil.rmtree(Path(path).parent, ignore_errors=True)
