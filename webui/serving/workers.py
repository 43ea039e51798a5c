"""The web app in several processes, which share one listening socket: `tunefarm web --workers N`.

The first process only minds the others. It restarts them when they die. They end when it does, however it ends,
because it holds their standard input. Each has connections and caches of its own. Connections, live streams and
wrong tokens of a client are counted together. One process alone writes down the tracker's health checks.
"""

from __future__ import annotations

import logging
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

from rpc_server.machine.children import PYTHON, environment
from tuner.records.store import RecordStore
from webui.errors import WebStartError
from webui.serving.server import GRACE_S, WebOptions, WorkerCounts, bind, check_access, serve_worker, started
from webui.serving.shared_limit import SharedCounts, SharedLimit

_log = logging.getLogger(__name__)

_MOST_DEATHS = 5
_DEATHS_S = 60.0


@dataclass(frozen=True)
class WorkerTask:
    """A worker's task: its number, from 0, and the files that it inherited."""

    options: WebOptions
    number: int
    listener: int
    failures: int
    connections: int
    streams: int


@dataclass(frozen=True)
class _Ended:
    """A worker that has ended, and when it was started."""

    number: int
    code: int


def serve_workers(options: WebOptions, announce: Callable[[str], None] = print) -> None:
    """`webui.serving.server.serve`, with `options.workers` processes that answer. Raises what that raises."""
    with RecordStore.open(options.db) as store:
        check_access(store, options)
    with ExitStack() as stack:
        listener = stack.enter_context(bind(options.host, options.port))
        failures, connections, streams = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        SharedLimit.prepare(failures)
        for counts in (connections, streams):
            SharedCounts.prepare(counts, options.workers)
        workers = stack.enter_context(_running(options, listener, (failures, connections, streams)))
        said = stack.enter_context(_signals())
        for number in range(options.workers):
            workers.start(number, said)
        workers.wait_until_ready(said)
        stack.enter_context(started(listener, options, announce))
        workers.mind(said)


WorkerEvents = queue.SimpleQueue["_Ended | int | None"]
"""Workers that ended, numbers of those that are ready, None for a signal to end."""


@contextmanager
def _signals() -> Iterator[WorkerEvents]:
    """Yield the queue of events; signals to end are among them."""
    events: WorkerEvents = queue.SimpleQueue()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: events.put(None)) for number in numbers}
    try:
        yield events
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _running(options: WebOptions, listener: socket.socket, counted: Sequence[IO[bytes]]) -> Iterator[_Workers]:
    workers = _Workers(options, listener, counted)
    try:
        yield workers
    finally:
        workers.stop()


class _Workers:
    def __init__(self, options: WebOptions, listener: socket.socket, counted: Sequence[IO[bytes]]) -> None:
        self._options = options
        self._inherited = (listener.fileno(), *(file.fileno() for file in counted))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, events: WorkerEvents) -> None:
        process = subprocess.Popen(
            [*PYTHON, "-c", "from webui.serving.workers import work; work()"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=self._inherited,
            start_new_session=True,  # a terminal's Ctrl-C is for the one that minds them
        )
        self._processes[number] = process
        assert process.stdin is not None
        pickle.dump(WorkerTask(self._options, number, *self._inherited), process.stdin)
        process.stdin.flush()
        threading.Thread(target=self._watch, args=(number, process, events), daemon=True).start()

    @staticmethod
    def _watch(number: int, process: subprocess.Popen[bytes], events: WorkerEvents) -> None:
        assert process.stdout is not None
        if process.stdout.readline():
            events.put(number)
        events.put(_Ended(number, process.wait()))

    def wait_until_ready(self, events: WorkerEvents) -> None:
        """Raise WebStartError when one ends instead."""
        waiting = set(self._processes)
        while waiting:
            match events.get():
                case int(number):
                    waiting.discard(number)
                case _Ended():
                    raise WebStartError("the web app did not start", hint="what it printed says why")
                case None:
                    raise KeyboardInterrupt

    def mind(self, events: WorkerEvents) -> None:
        """Mind the workers until a signal to end.
        Raises WebStartError when they die as fast as they are started."""
        deaths: deque[float] = deque(maxlen=_MOST_DEATHS)
        while (what := events.get()) is not None:
            if isinstance(what, _Ended):
                deaths.append(time.monotonic())
                if len(deaths) == _MOST_DEATHS and deaths[-1] - deaths[0] < _DEATHS_S:
                    raise WebStartError(f"the web app's processes keep ending, the last one with {what.code}")
                _log.warning("a web process ended with %d; another takes its place", what.code)
                self.start(what.number, events)

    def stop(self) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + GRACE_S + 5
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def work() -> None:
    """One of the processes: answers until its standard input ends."""
    task: WorkerTask = pickle.load(sys.stdin.buffer)
    listener = socket.socket(fileno=task.listener)
    with ExitStack() as stack:
        failures, connections, streams = (
            stack.enter_context(open(fd, "r+b", buffering=0)) for fd in (task.failures, task.connections, task.streams)
        )
        serve_worker(
            task.options,
            listener,
            WorkerCounts(
                SharedLimit(failures),
                SharedCounts(connections, task.options.workers, task.number),
                SharedCounts(streams, task.options.workers, task.number),
            ),
            writes_checks=task.number == 0,
            ready=lambda: print("ready", flush=True),
            until=lambda: sys.stdin.buffer.read(),
        )
