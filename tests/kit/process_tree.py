"""What the system says of processes. One may end at any moment, also while it is being asked for: it has no children
then, no command and no life, and that is never an error."""

from __future__ import annotations

import contextlib

import psutil

from rpc_server.executor import warden


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


def resident(pid: int) -> int:
    """Bytes of memory it has."""
    return int(psutil.Process(pid).memory_info().rss)
