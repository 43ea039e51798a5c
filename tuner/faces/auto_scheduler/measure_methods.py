"""How states are built and measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rpc_server.box.server import Server
from rpc_server.wire.keys import KeyRing
from tracker.client import connect_tracker
from tracker.server import Tracker
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.common.engine import FaceBuilder, MeasureOptionError, OnThisMachine, OnTracker

_LOCALHOST = "127.0.0.1"
_REGISTERED_S = 30.0


class LocalBuilder(FaceBuilder):
    """Builds states in `n_parallel` processes (None: one a core) within `timeout` seconds each. `build_func`, which
    names or is a linker, changes nothing: states are sent to devices as artifacts."""

    def __init__(
        self, timeout: float = 15, n_parallel: int | None = None, build_func: str | Callable[..., Any] = "default"
    ) -> None:
        super().__init__(timeout, n_parallel)
        if not callable(build_func) and build_func not in ("default", "ndk", "stackvm"):
            raise MeasureOptionError(f"build_func {build_func!r} is unknown", hint="known: default, ndk, stackvm")
        self.build_func = build_func


class LocalRunner(OnThisMachine):
    """Measures states in an isolated process of this machine, one at a time; see `FaceRunner` for the options."""

    def __init__(
        self,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)


class RPCRunner(OnTracker):
    """Measures states on the devices that the tracker at `host`:`port` lends for `key` (or a capability expression),
    up to `n_parallel` at once. Of those who wait for a device, a higher `priority` is served first. `keys` are this
    machine's where the farm uses them; see `FaceRunner` for the other options."""

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
        *,
        keys: KeyRing | None = None,
    ) -> None:
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)
        if n_parallel < 1:
            raise MeasureOptionError(f"n_parallel is at least 1, got {n_parallel}")
        self.key, self.host, self.port, self.priority = key, host, int(port), priority
        self.n_parallel = n_parallel
        self.keys = keys


class LocalRPCMeasureContext:
    """A tracker and a device server on this machine, and the `runner` that measures there. They end with the object:
    at `close`, the end of a `with`, or when it is collected."""

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        key = "local-rpc"
        self.tracker = Tracker(_LOCALHOST, port=0, silent=True)
        try:
            address = (_LOCALHOST, self.tracker.port)
            self.server = Server(_LOCALHOST, port=0, tracker_addr=address, key=key, silent=True)
            try:
                _wait_for_device(address)
                self.runner = RPCRunner(
                    key,
                    *address,
                    priority,
                    n_parallel,
                    timeout,
                    number,
                    repeat,
                    min_repeat_ms,
                    cooldown_interval,
                    enable_cpu_cache_flush,
                    device,
                )
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
