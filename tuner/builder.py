"""Turning candidates into artifacts, in worker processes.

A build is `apply_trace` on the workload's function, then lower, code generation and LLVM, all pure. Workers are
spawned (never forked from a loaded, threaded process), run at low priority so that measurements on the same
machine keep their cores, and hold a memory limit. A build past its time limit is stopped in Python; one stuck
inside LLVM is ended with its worker and costs only itself.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from compiler.errors import ScheduleError, TunefarmError
from compiler.target import Target
from compiler.tir.nodes import PrimFunc
from rpc_server.measure import FailureKind


@dataclass(frozen=True)
class BuildRequest:
    """`func` is a pickled PrimFunc (made by `pack_func`, read only by our own workers); without `trace` the
    function is built as it is."""

    func: bytes
    trace: str | None
    target: str
    name: str
    timeout_s: float = 10.0


@dataclass(frozen=True)
class BuildResult:
    """`artifact` (bytes of `Artifact.to_bytes`) or a failure with its text; `seconds` of work in the worker."""

    artifact: bytes | None
    failure: FailureKind | None
    text: str
    seconds: float


class Builder(Protocol):
    """Where candidates are built."""

    def submit(self, request: BuildRequest) -> Future[BuildResult]:
        """Never raises for a candidate that does not build: that is a result."""

    def close(self) -> None:
        """End the workers."""


def pack_func(func: PrimFunc) -> bytes:
    return pickle.dumps(func)


# ------------------------------------------------------------------------------- in the worker


class _BuildTimeout(Exception):
    pass


_HARD = 3.0
_NOWHERE = open(os.devnull, "w")  # noqa: SIM115  (open for the worker's life)


def _start_worker(memory_bytes: int, niceness: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    os.nice(niceness)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    import compiler.driver  # noqa: F401  (paid once, before the first job's clock)


def _end_with_parent() -> None:
    """A worker holds both ends of the pool's pipes, so it would not notice that a killed tuner is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=64)
def _unpack(blob: bytes) -> PrimFunc:
    func: PrimFunc = pickle.loads(blob)
    return func


def build(request: BuildRequest) -> BuildResult:
    """Build one candidate in this process; failures become results."""
    start = time.perf_counter()

    def failed(kind: FailureKind, text: str) -> BuildResult:
        return BuildResult(None, kind, text, time.perf_counter() - start)

    try:
        with _time_limit(request.timeout_s):
            artifact = _compile(request)
    except _BuildTimeout:
        return failed(FailureKind.BUILD_TIMEOUT, f"the build took longer than {request.timeout_s:g} s")
    except ScheduleError as error:
        return failed(FailureKind.INSTANTIATE, str(error))
    except TunefarmError as error:
        return failed(FailureKind.BUILD, f"{error.kind}: {error}")
    except MemoryError:
        return failed(FailureKind.BUILD, "the build ran out of its memory limit")
    except Exception:  # a bug in the compiler must cost one trial and keep its trace
        return failed(FailureKind.BUILD, traceback.format_exc(limit=-8))
    return BuildResult(artifact, None, "", time.perf_counter() - start)


def _compile(request: BuildRequest) -> bytes:
    from compiler.driver import compile_artifact
    from compiler.schedule.trace import Trace, apply_trace

    func = _unpack(request.func)
    if request.trace is not None:
        func = apply_trace(func, Trace.from_json(request.trace)).func
    return compile_artifact(func, Target(request.target), name=request.name).to_bytes()


class _time_limit:
    """Raise _BuildTimeout in this (main) thread after `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        # a build stuck inside LLVM never sees the alarm: a watchdog thread ends the whole worker
        faulthandler.dump_traceback_later(_HARD * self._seconds, exit=True, file=_NOWHERE)

        def expired(*_: object) -> None:
            raise _BuildTimeout

        self._old = signal.signal(signal.SIGALRM, expired)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._old)
        faulthandler.cancel_dump_traceback_later()


# --------------------------------------------------------------------------------- the pool


class LocalBuilder:
    """A pool of worker processes on this machine, restarted when a worker dies or hangs."""

    def __init__(
        self, workers: int | None = None, *, memory_bytes: int = 8 << 30, niceness: int = 19, attempts: int = 2
    ) -> None:
        """`workers` defaults to the cores this process may use. A job whose worker died under it is tried
        `attempts` times, since it may have died of another job's doing."""
        self.workers = workers or len(os.sched_getaffinity(0))
        self._memory = memory_bytes
        self._niceness = niceness
        self._attempts = attempts
        self._lock = threading.Lock()
        self._closed = False
        self._pool = self._new_pool()

    def submit(self, request: BuildRequest) -> Future[BuildResult]:
        outer: Future[BuildResult] = Future()
        outer.set_running_or_notify_cancel()
        self._start(request, outer, self._attempts)
        return outer

    def close(self) -> None:
        with self._lock:
            self._closed = True
            pool = self._pool
        _kill(pool)

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(self._memory, self._niceness),
        )

    def _start(self, request: BuildRequest, outer: Future[BuildResult], attempts: int) -> None:
        pool = self._pool
        try:
            with _sigint_blocked():  # the first submit starts the workers
                inner = pool.submit(build, request)
        except (BrokenProcessPool, RuntimeError) as error:
            if self._closed:
                _finish(outer, FailureKind.BUILD, "the builder was closed")
            elif attempts > 0:
                self._replace(pool)
                self._start(request, outer, attempts - 1)
            else:
                _finish(outer, FailureKind.BUILD, f"no build worker could be started: {error}")
            return
        inner.add_done_callback(self._when_done(request, outer, attempts, pool))

    def _when_done(
        self, request: BuildRequest, outer: Future[BuildResult], attempts: int, pool: ProcessPoolExecutor
    ) -> Callable[[Future[BuildResult]], None]:
        started = time.monotonic()

        def done(inner: Future[BuildResult]) -> None:
            if inner.cancelled():
                _finish(outer, FailureKind.BUILD, "the build was cancelled")
                return
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            elif isinstance(error, BrokenProcessPool) and attempts > 1 and not self._closed:
                self._replace(pool)
                self._start(request, outer, attempts - 1)
            else:
                hung = time.monotonic() - started > _HARD * request.timeout_s
                kind = FailureKind.BUILD_TIMEOUT if hung else FailureKind.BUILD
                _finish(outer, kind, "the build hung and its worker was ended" if hung else "the build worker died")

        return done

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is broken and not self._closed:
                self._pool = self._new_pool()


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """What is started meanwhile inherits the mask: Ctrl-C goes to the terminal's whole process group, and a worker
    that is just coming up would answer it with a traceback. This process gets the signal afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _finish(outer: Future[BuildResult], kind: FailureKind, text: str) -> None:
    outer.set_result(BuildResult(None, kind, text, 0.0))


def _kill(pool: ProcessPoolExecutor) -> None:
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    for process in processes:
        process.join(timeout=2)
