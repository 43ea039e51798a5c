"""Limits that an executor sets for itself before it runs anybody's code.

Death with its parent, resources, user.
"""

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


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel send SIGKILL when the parent ends, however it does; exit if it has already.
    `parent` is its number, None for one in another PID namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        sys.exit(0)


def limit_resources(
    memory: int | None, open_files: int, cpus: Iterable[int], file_size: int | None, processes: int
) -> None:
    """No core dumps, few open files, chosen cores.
    An address space of what is in use now plus `memory` bytes, files of up to `file_size` bytes. `processes`
    processes and threads of the user it will be. The kernel does not hold root to the last."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, open_files)
    _lower(resource.RLIMIT_NPROC, processes)
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


EACH = "each"
"""The user of executors of which each gets a number of its own."""
_FIRST_OF_EACH = 0x70000000  # systemd and its like give out none from here to 0x7fffffff


def number_of_each(pid: int) -> int:
    """Return the number of the user that an executor runs as.
    No two live processes of a machine share it."""
    return _FIRST_OF_EACH + pid


def is_number_of_each(uid: int) -> bool:
    return uid >= _FIRST_OF_EACH


def ids_of(user: str) -> tuple[int, int]:
    """(uid, gid) of a user. Raises KeyError: there is none of that name."""
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def become(uid: int, gid: int) -> None:
    """Give up root, for good. Raises OSError where the system forbids it.

    Afterwards the process may be unable to read its own installation: import everything first.
    """
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))
