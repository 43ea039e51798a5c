"""What an executor does to itself before it runs anybody's code: die with its parent, limits, another user."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import resource
import signal
import sys
from collections.abc import Iterable

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def die_with_parent(parent: int) -> None:
    """Have the kernel send SIGKILL when the supervisor ends, however it does; exit if it has already."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


def limit_resources(
    memory: int | None, open_files: int, cpus: Iterable[int], file_size: int | None, processes: int, uid: int
) -> None:
    """No core dumps, few open files, an address space of what is in use now plus `memory` bytes, chosen cores, files of
    up to `file_size` bytes, and as many processes and threads of user `uid` as there are now plus `processes`. The
    kernel does not hold root to the last."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, open_files)
    _lower(resource.RLIMIT_NPROC, tasks_of(uid) + processes)
    if file_size is not None:
        _lower(resource.RLIMIT_FSIZE, file_size)
    if memory is not None:
        _lower(resource.RLIMIT_AS, address_space() + memory)
    chosen = set(cpus)
    if chosen:
        os.sched_setaffinity(0, chosen)


def address_space() -> int:
    """Bytes of address space this process takes now."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def tasks_of(uid: int) -> int:
    """Processes and threads that a user has now."""
    count = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            if entry.name.isdecimal() and entry.stat().st_uid == uid:
                count += max(1, len(os.listdir(f"/proc/{entry.name}/task")))
    return count


def become(user: str) -> str:
    """Give up root for `user`, for good; return "" or, when the system forbids that, a warning.

    Afterwards the process may be unable to read its own installation: import everything first.
    """
    entry = pwd.getpwnam(user)
    try:
        os.setgroups([])
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    except PermissionError as error:
        return f"executors run as root: they cannot become {user!r} ({error.strerror})"
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return ""


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))
