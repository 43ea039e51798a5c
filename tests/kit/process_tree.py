"""The system's processes. One may end at any moment, also while it is looked at. It then has no children, no command
and is not alive, which is never an error."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import psutil

from rpc_server.executor import warden

_PATIENCE_S = 300.0
_BEGINS_S = 0.3


def children(pid: int) -> list[int]:
    """The processes that a process started and has not waited for."""
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def wardens(server: int) -> list[int]:
    """The processes that stand around a server's executors: when one is killed, so is its executor."""
    found = []
    for child in children(server):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(child).name() == warden.NAME:
                found.append(child)
    return found


def child_of(pid: int, word: str) -> int:
    """The first of them whose command has this in it; 0 where none has."""
    for child in children(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            if word in " ".join(psutil.Process(child).cmdline()):
                return child
    return 0


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return str(psutil.Process(pid).status()) != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def once_it_computes(pid: int, act: Callable[[], object]) -> Iterator[None]:
    """Have a thread do something when a process is at what it is asked for here: when it, with those that it started,
    has used more of a processor than it takes to begin."""
    thread = threading.Thread(target=_wait_and_act, args=(pid, act))
    thread.start()
    yield
    thread.join()


def _wait_and_act(pid: int, act: Callable[[], object]) -> None:
    before, deadline = _used(pid), time.monotonic() + _PATIENCE_S
    while _used(pid) < before + _BEGINS_S:
        assert time.monotonic() < deadline, "nothing is computed"
        time.sleep(0.01)
    act()


def _used(pid: int) -> float:
    used = 0.0
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            used += float(process.cpu_times().user)
    return used


def resident(pid: int) -> int:
    """Bytes of memory it has."""
    return int(psutil.Process(pid).memory_info().rss)
