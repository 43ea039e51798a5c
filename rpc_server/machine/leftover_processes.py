"""Processes that a candidate left behind, by leaving its executor's process group before that ended.

The supervisor is their nearest living ancestor that asked to adopt orphans. It becomes their parent when the
executor dies, and can find, kill and reap them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Container
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rpc_server.isolation.limits import is_number_of_each

if TYPE_CHECKING:  # an executor reads MARK here, and starts without ZeroMQ
    from rpc_server.wire.polling import PollTable

MARK = "TUNEFARM_SUPERVISOR"
"""In an executor's environment, and so in that of what it forks: the supervisor's pid."""
_PR_SET_CHILD_SUBREAPER = 36


class LeftoverProcesses:
    """The processes that sessions left over.
    `ours` are the pids of children that are not left over, `user` is the uid that executors run as, where they share
    one."""

    def __init__(self, poll: PollTable, ours: Container[int], user: int) -> None:
        self._poll = poll
        self._ours = ours
        self._user = user
        self._dying: set[int] = set()
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def sweep(self) -> None:
        """Kill what was left behind; call it when an executor has ended.
        The children of what was killed are next."""
        for pid in _children():
            if pid not in self._ours and pid not in self._dying and _comes_from_an_executor(pid, self._user):
                with contextlib.suppress(ProcessLookupError):
                    pidfd = os.pidfd_open(pid)
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    self._dying.add(pid)
                    self._poll.watch(pidfd, partial(self._reap, pid, pidfd))

    def _reap(self, pid: int, pidfd: int, _events: int) -> None:
        self._poll.unwatch(pidfd)
        os.close(pidfd)
        self._dying.discard(pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        self.sweep()


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def _comes_from_an_executor(pid: int, user: int) -> bool:
    """Whether a process is a session's.
    It runs as the executors' `user`, if that is not the supervisor's own, or carries the mark. Other children belong
    to the program that runs a supervisor in a thread."""
    process = Path(f"/proc/{pid}")
    try:
        uids = next(line for line in (process / "status").read_text().splitlines() if line.startswith("Uid:"))
        uid = int(uids.split()[2])
        if uid == user != os.geteuid() or is_number_of_each(uid):
            return True
        return f"{MARK}={os.getpid()}".encode() in (process / "environ").read_bytes().split(b"\0")
    except (OSError, StopIteration):
        return False
