"""Turning candidates into artifacts, in worker processes of this machine.

A build is pure (see `tuner.build.worker`). Each worker is a `concurrent.futures` pool of one process. A build that
ends its process takes no other one with it, and is known to be the cause. Workers are forked from a process that has
imported the compiler and nothing else (`build.spawning`), never from this one. So a new one is there in
milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from multiprocessing.process import BaseProcess
from typing import Protocol

from rpc_server.machine.crash import signal_name
from rpc_server.wire.trial_messages import FailureKind
from tuner.build.spawning import main_not_imported, sigint_blocked, start_fork_server
from tuner.build.worker import (
    HARD,
    BuildRequest,
    CandidateBuild,
    FuncSource,
    MakeSource,
    Source,
    TraceSource,
    build,
    pack_func,
    start_worker,
)

__all__ = [
    "BuildRequest", "CandidateBuild", "CandidateBuilder", "FuncSource", "MakeSource", "ProcessBuilder", "Source",
    "TraceSource", "pack_func",
]  # fmt: skip

MEMORY_BYTES = 8 << 30
_NOT_FORKED = (OSError, EOFError)  # EOFError: the process that workers are forked from died meanwhile


class CandidateBuilder(Protocol):
    """Where candidates are built."""

    @property
    def workers(self) -> int:
        """How many builds may run at once."""

    @property
    def cores(self) -> int:
        """How many of this machine's cores builds may take; 0 where they happen elsewhere."""

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        """Never raises for a candidate that does not build: that is a result."""

    def close(self) -> None:
        """End the workers."""


class ProcessBuilder:
    """Builds in `workers` processes on this machine, each replaced when it dies.

    By default it has as many as it may use cores. `memory_bytes` is what one may map (0: no limit), `niceness` its
    priority below this process's. With `import_main` they import this program's main module, where functions to call
    (`MakeSource`) may be defined.
    """

    def __init__(
        self, workers: int | None = None, *, memory_bytes: int = MEMORY_BYTES, niceness: int = 19,
        import_main: bool = True,
    ) -> None:  # fmt: skip
        self._lock = threading.Lock()
        self._closed = False
        self._workers = [
            _Worker(memory_bytes, niceness, import_main) for _ in range(workers or len(os.sched_getaffinity(0)))
        ]
        self._idle = list(self._workers)
        self._waiting: deque[tuple[BuildRequest, Future[CandidateBuild]]] = deque()

    @property
    def workers(self) -> int:
        return len(self._workers)

    @property
    def cores(self) -> int:
        return len(os.sched_getaffinity(0))

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        outcome: Future[CandidateBuild] = Future()
        outcome.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append((request, outcome))
        self._dispatch()
        return outcome

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting, self._waiting = list(self._waiting), deque()
        for _, outcome in waiting:
            outcome.set_result(_failed("the builder was closed"))
        for worker in self._workers:
            worker.close()

    def _dispatch(self) -> None:
        while True:
            with self._lock:
                if self._closed or not self._idle or not self._waiting:
                    return
                worker = self._idle.pop()
                request, outcome = self._waiting.popleft()
            self._start(worker, request, outcome)

    def _start(self, worker: _Worker, request: BuildRequest, outcome: Future[CandidateBuild]) -> None:
        started = time.monotonic()

        def done(inner: Future[CandidateBuild]) -> None:
            error = None if inner.cancelled() else inner.exception()
            if inner.cancelled() or self._closed:
                result = _failed("the builder was closed")
            elif error is None:
                result = inner.result()
            elif isinstance(error, BrokenProcessPool):
                result = worker.obituary(time.monotonic() - started, request.timeout_s)
                worker.replace()
            else:
                result = _failed(f"the build could not be sent to a worker: {type(error).__name__}: {error}")
            with self._lock:
                self._idle.append(worker)
            outcome.set_result(result)
            self._dispatch()

        try:
            worker.submit(request).add_done_callback(done)
        except (RuntimeError, *_NOT_FORKED) as error:
            with self._lock:
                self._idle.append(worker)
            outcome.set_result(_failed(f"no build worker could be started: {error}"))


class _Worker:
    """One process behind a pool of its own."""

    def __init__(self, memory_bytes: int, niceness: int, import_main: bool) -> None:
        self._settings = (memory_bytes, niceness)
        self._main = nullcontext if import_main else main_not_imported
        self._process: BaseProcess | None = None
        self._pool = self._new_pool()
        start_fork_server()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("forkserver"),
            initializer=start_worker,
            initargs=(*self._settings, dict(os.environ)),
        )

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        try:
            future = self._submit(request)
        except (BrokenProcessPool, *_NOT_FORKED):  # it, or what it is forked from, died between two builds
            self.replace()
            future = self._submit(request)
        self._process = next(iter(self._processes()), None)
        return future

    def _submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        if not self._processes():  # submit starts it
            start_fork_server()
        with sigint_blocked(), self._main():
            return self._pool.submit(build, request)

    def _processes(self) -> list[BaseProcess]:
        return list((getattr(self._pool, "_processes", None) or {}).values())

    def obituary(self, seconds: float, timeout_s: float) -> CandidateBuild:
        """The result of a build whose process is gone after `seconds`."""
        if seconds > HARD * timeout_s:
            text = f"the build hung in machine code for {seconds:.0f} s and its worker was ended"
            return CandidateBuild(None, FailureKind.BUILD_TIMEOUT, text, seconds)
        return _failed(f"the build ended its worker{self._cause()}", seconds)

    def _cause(self) -> str:
        if self._process is None:
            return ""
        self._process.join(timeout=2)
        code = self._process.exitcode
        if code is None:
            return ""
        if code >= 0:
            return f": exit status {code}"
        name = signal_name(-code)
        return f": {name}" + (f" (it may map {self._settings[0] >> 20} MiB)" if name == "SIGABRT" else "")

    def replace(self) -> None:
        # no shutdown: a broken pool ends by itself, and calls back with the lock held that shutdown takes
        self._pool = self._new_pool()

    def close(self) -> None:
        processes = self._processes()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        for process in processes:
            process.join(timeout=2)


def _failed(text: str, seconds: float = 0.0) -> CandidateBuild:
    return CandidateBuild(None, FailureKind.BUILD, text, seconds)
