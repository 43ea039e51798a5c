"""Limits of a whole session by the kernel, where it lets this process make control groups.

They bound its processes, which for root nothing else limits, and in version 2 its memory. Source: Linux,
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/pids.rst.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_NAME = "tunefarm-"
_OF_OUR_OWN = 3  # the warden, process 1, and what one starts for a moment
_BASE_MEMORY = 512 << 20  # an executor without a session, and what the kernel keeps for it


class TaskGroups:
    """One control group for each executor, below this process's own."""

    def __init__(self, processes: int, memory: int | None) -> None:
        limits = {"pids.max": str(processes + _OF_OUR_OWN)}
        if memory is not None:
            limits |= {"memory.max": str(memory + _BASE_MEMORY), "memory.swap.max": "0"}
        self._home: Path | None = None
        self._limits: dict[str, str] = {}
        for folder in _own_groups():
            here = {name: limits[name] for name in _writable(folder, limits)}
            if len(here) > len(self._limits):
                self._home, self._limits = folder, here
        if self._home is not None:
            _remove_leftovers(self._home)

    @property
    def limits_processes(self) -> bool:
        return "pids.max" in self._limits

    @property
    def limits_memory(self) -> bool:
        return "memory.max" in self._limits

    def make(self, number: int) -> tuple[str, ...]:
        """Make an executor's group.
        Returns the files to which its warden writes itself. Raises OSError."""
        if self._home is None:
            return ()
        group = self._group(self._home, number)
        group.mkdir(exist_ok=True)
        for name, value in self._limits.items():
            (group / name).write_text(value)
        return (str(group / "cgroup.procs"),)

    def remove(self, number: int) -> None:
        """Kill what is left of an ended executor. A group that does not end stays for the next server."""
        if self._home is not None:
            group = self._group(self._home, number)
            with contextlib.suppress(OSError):
                (group / "cgroup.kill").write_text("1")
            with contextlib.suppress(OSError):
                group.rmdir()

    @staticmethod
    def _group(home: Path, number: int) -> Path:
        return home / f"{_NAME}{os.getpid()}-{number}"


def _own_groups() -> Iterator[Path]:
    """Find the control groups of this process that may limit processes.
    They are v1's own hierarchy for them, or v2's."""
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


def _writable(folder: Path, names: dict[str, str]) -> list[str]:
    """The limits of a group made there: in v2, those of the controllers that are delegated."""
    probe = folder / f"{_NAME}{os.getpid()}-probe"
    try:
        probe.mkdir()
        try:
            return [name for name in names if os.access(probe / name, os.W_OK)]
        finally:
            probe.rmdir()
    except OSError:
        return []


def _remove_leftovers(folder: Path) -> None:
    """Remove groups of servers that were killed. A group in which something runs cannot be removed."""
    for group in folder.glob(f"{_NAME}*-*"):
        owner = group.name.removeprefix(_NAME).split("-")[0]
        if not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                group.rmdir()
