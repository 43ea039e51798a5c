"""Functions run in processes of their own, which may be ended when they take too long.

Functions of modules can be called; where `cloudpickle` is installed, any function can.
"""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import IntEnum
from os import sched_getaffinity
from typing import IO, Any, NamedTuple

from compiler.errors import TunefarmError

__all__ = ["MapResult", "PopenPoolExecutor", "PopenWorker", "StatusKind"]

_SERVE = """
import pickle, sys
try:
    from cloudpickle import dumps
except ImportError:
    from pickle import dumps
calls, answers = sys.stdin.buffer, sys.stdout.buffer
sys.stdout = sys.stderr
while True:
    try:
        function, args, kwargs = pickle.load(calls)
    except EOFError:
        break
    try:
        answer = True, function(*args, **kwargs)
    except BaseException as error:
        answer = False, error
    try:
        packed = dumps(answer)
    except Exception as error:
        packed = dumps((False, RuntimeError(f"the result cannot be sent: {error}")))
    answers.write(packed)
    answers.flush()
"""


def _packed(call: tuple[Any, ...]) -> bytes:
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        dumps = pickle.dumps
    found: bytes = dumps(call)
    return found


class StatusKind(IntEnum):
    """How a call of a pool ended."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """The outcome of one element: `value` is the result, or the error."""

    status: StatusKind
    value: Any


class PopenWorker:
    """A process that runs functions one after another. It starts with the first, and again after `kill`."""

    def __init__(
        self, initializer: Callable[..., Any] | None = None, initargs: Sequence[Any] = (),
        maximum_uses: int | None = None, stdout: Any = None, stderr: Any = None,
    ) -> None:  # fmt: skip
        self._initializer, self._initargs = initializer, tuple(initargs)
        self._maximum_uses = maximum_uses
        self._stderr = stderr
        self._process: subprocess.Popen[bytes] | None = None
        self._uses = 0
        self._timed_out = False
        self._timer: threading.Timer | None = None

    def __del__(self) -> None:
        self.kill()

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process ends; nothing more can be sent to it."""
        if self._process is not None:
            self._pipe(self._process.stdin).close()
            self._process.wait(timeout)

    def kill(self) -> None:
        """End the process at once."""
        process, self._process = self._process, None
        if self._timer is not None:
            self._timer.cancel()
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def send(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Begin a call, which ends with the process after `timeout` seconds."""
        if self._maximum_uses is not None and self._uses >= self._maximum_uses:
            self.kill()
        if not self.is_alive():
            self._start()
        self._uses += 1
        self._timed_out = False
        self._write(fn, tuple(args), dict(kwargs or {}))
        if timeout is not None:
            self._timer = threading.Timer(timeout, self._end_late)
            self._timer.daemon = True
            self._timer.start()

    def recv(self) -> Any:
        """The result of the call.
        Raises what it raised, TimeoutError when it took too long, ChildProcessError when the process ended."""
        process = self._process
        if process is None:
            raise (TimeoutError if self._timed_out else ChildProcessError)("no call is running")
        try:
            is_good, value = pickle.load(self._pipe(process.stdout))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self.kill()
            if self._timed_out:
                raise TimeoutError("the call took too long") from None
            raise ChildProcessError("the process ended in the call") from None
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if not is_good:
            raise value
        return value

    def _start(self) -> None:
        self.kill()
        self._uses = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
        )
        if self._initializer is not None:
            self._write(self._initializer, self._initargs, {})
            self.recv()

    def _write(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert self._process is not None
        pipe = self._pipe(self._process.stdin)
        pipe.write(_packed((fn, args, kwargs)))
        pipe.flush()

    def _end_late(self) -> None:
        self._timed_out = True
        process = self._process
        if process is not None:
            process.kill()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise TunefarmError("the process of a worker has no pipe")
        return pipe


class PopenPoolExecutor:
    """Runs calls in up to `max_workers` processes (None: one a core), each for at most `timeout` seconds."""

    def __init__(
        self, max_workers: int | None = None, timeout: float | None = None,
        initializer: Callable[..., Any] | None = None, initargs: Sequence[Any] = (),
        maximum_process_uses: int | None = None, stdout: Any = None, stderr: Any = None,
    ) -> None:  # fmt: skip
        self._timeout = timeout
        self._start = (initializer, initargs, maximum_process_uses, stdout, stderr)
        self._threads = ThreadPoolExecutor(max_workers or len(sched_getaffinity(0)))
        self._local = threading.local()
        self._workers: list[PopenWorker] = []

    def __del__(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(wait=False)

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """The future result of a call."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def map_with_error_catching(self, fn: Callable[..., Any], iterator: Iterable[Any]) -> Iterator[MapResult]:
        """The outcome of each element, in order."""
        for future in [self.submit(fn, item) for item in iterator]:
            try:
                yield MapResult(StatusKind.COMPLETE, future.result())
            except TimeoutError as error:
                yield MapResult(StatusKind.TIMEOUT, error)
            except Exception as error:
                yield MapResult(StatusKind.EXCEPTION, error)

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        worker: PopenWorker | None = getattr(self._local, "worker", None)
        if worker is None:
            worker = self._local.worker = PopenWorker(*self._start)
            self._workers.append(worker)
        worker.send(fn, args, kwargs, self._timeout)
        return worker.recv()
