"""A limit of processes for executors that stay root: the kernel's limit for a user (RLIMIT_NPROC) does not hold root, a
control group does (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/pids.rst)."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger("rpc_server")

_ROOT = Path("/sys/fs/cgroup")
_NAME = "tunefarm-"


class TaskGroups:
    """One control group for each executor, below this process's own. `usable`: whether the system lets it make them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._home = next((folder for folder in _own_groups() if _can_limit(folder)), None)
        if self._home is None:
            logger.warning(
                "executors run as root, and no control group can be made here: nothing limits their processes"
            )
        else:
            _remove_leftovers(self._home)

    @property
    def usable(self) -> bool:
        return self._home is not None

    def hold(self, number: int, pid: int) -> None:
        """Limit a process, and all it forks, together."""
        if self._home is None:
            return
        group = self._group(self._home, number)
        try:
            group.mkdir()
            (group / "pids.max").write_text(str(self._limit))
            (group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            logger.warning("nothing limits the processes of executor %d: %s", number, error)

    def forget(self, number: int) -> None:
        """Call when the process has ended. A group that something still runs in stays for the next server to remove."""
        if self._home is not None:
            with contextlib.suppress(OSError):
                self._group(self._home, number).rmdir()

    @staticmethod
    def _group(home: Path, number: int) -> Path:
        return home / f"{_NAME}{os.getpid()}-{number}"


def _own_groups() -> Iterator[Path]:
    """Where this process's control groups are that may limit processes: v1's own hierarchy for them, or v2's."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            yield _ROOT / "pids" / path.lstrip("/")
        elif not controllers:
            yield _ROOT / path.lstrip("/")


def _can_limit(folder: Path) -> bool:
    """Whether a group made there has the limit: in v2, only where the controller was handed down."""
    probe = folder / f"{_NAME}{os.getpid()}-probe"
    try:
        probe.mkdir()
        try:
            return os.access(probe / "pids.max", os.W_OK)
        finally:
            probe.rmdir()
    except OSError:
        return False


def _remove_leftovers(folder: Path) -> None:
    """Groups of servers that were killed. One in which something runs cannot be removed."""
    for group in folder.glob(f"{_NAME}*-*"):
        owner = group.name.removeprefix(_NAME).split("-")[0]
        if not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                group.rmdir()
