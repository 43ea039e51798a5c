"""What the system says of processes. One may end at any moment, also while it is being asked for: it has no children
then, no command and no life, and that is never an error."""

from __future__ import annotations

import psutil


def children(pid: int) -> list[int]:
    """The processes that a process started and has not waited for."""
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def command(pid: int) -> list[str]:
    """The words it was started with."""
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return []


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return str(psutil.Process(pid).status()) != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
