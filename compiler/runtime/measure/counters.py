"""The CPU's event counters, where the system lets a process read its own: Linux's perf_event_open.

Facts of the call: perf_event_open(2). Only user-space events of this thread and the threads it starts later are
counted, which needs no privilege at the usual setting of kernel.perf_event_paranoid (2 or less).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from compiler.errors import DeviceError

_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
_HARDWARE, _SOFTWARE = 0, 1
EVENTS: dict[str, tuple[int, int]] = {
    "Cycles": (_HARDWARE, 0),
    "Instructions": (_HARDWARE, 1),
    "Cache References": (_HARDWARE, 2),
    "Cache Misses": (_HARDWARE, 3),
    "Branch Misses": (_HARDWARE, 5),
    "Page Faults": (_SOFTWARE, 2),
    "Context Switches": (_SOFTWARE, 3),
    "CPU Migrations": (_SOFTWARE, 4),
}
"""Name to (type, config) of perf_event_open."""

_ATTRIBUTES = struct.Struct("IIQQQQQ")  # type, size, config, period, sample_type, read_format, flags
_ATTRIBUTES_SIZE = 112
_DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_TIMES = 1 << 0 | 1 << 1  # read_format: time enabled, time running
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403
_CLOSE_ON_EXEC = 1 << 3

_WHY = {
    errno.EACCES: "the system does not allow it (kernel.perf_event_paranoid)",
    errno.EPERM: "the system does not allow it (kernel.perf_event_paranoid, or a container's rules)",
    errno.ENOENT: "this machine has no such counter (a virtual machine often has none)",
    errno.EOPNOTSUPP: "this machine has no such counter (a virtual machine often has none)",
    errno.ENODEV: "this machine has no such counter",
    errno.ENOSYS: "this system has no perf_event_open",
}


@dataclass(frozen=True, slots=True)
class CounterReading:
    """`scaled`: the counter shared its register with others, and its count was extrapolated."""

    count: int
    scaled: bool = False


class Counters:
    """Count some of `EVENTS` between `start` and `stop`.

    A context manager; closing gives the descriptors back. Raises DeviceError, saying why, when an event cannot be
    counted here.
    """

    def __init__(self, events: Sequence[str]) -> None:
        self._files: dict[str, int] = {}
        try:
            for event in events:
                self._files[event] = _open(event)
        except DeviceError:
            self.close()
            raise

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        for file in self._files.values():
            fcntl.ioctl(file, _RESET, 0)
        for file in self._files.values():
            fcntl.ioctl(file, _ENABLE, 0)

    def stop(self) -> dict[str, CounterReading]:
        for file in self._files.values():
            fcntl.ioctl(file, _DISABLE, 0)
        return {event: _read(file) for event, file in self._files.items()}

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()


@lru_cache(maxsize=1)
def available() -> tuple[str, ...]:
    """The events that can be counted here."""
    found = []
    for event in EVENTS:
        file = _try_open(event)
        if file >= 0:
            os.close(file)
            found.append(event)
    return tuple(found)


def _open(event: str) -> int:
    """The descriptor of a counter, not counting yet."""
    if event not in EVENTS:
        raise DeviceError(f"there is no event counter {event!r}", hint=f"there are: {', '.join(EVENTS)}")
    file = _try_open(event)
    if file < 0:
        hint = f"countable here: {', '.join(available()) or 'nothing'}"
        raise DeviceError(f"{event} cannot be counted: {_WHY.get(-file, os.strerror(-file))}", hint=hint)
    return file


def _try_open(event: str) -> int:
    """The descriptor, or the negative error number."""
    number = _SYSCALL.get(platform.machine())
    if number is None or platform.system() != "Linux":
        return -errno.ENOSYS
    kind, config = EVENTS[event]
    flags = _DISABLED | _INHERIT | _NO_KERNEL | _NO_HYPERVISOR
    head = _ATTRIBUTES.pack(kind, _ATTRIBUTES_SIZE, config, 0, 0, _TIMES, flags)
    attributes = ctypes.create_string_buffer(head, _ATTRIBUTES_SIZE)
    file: int = ctypes.CDLL(None, use_errno=True).syscall(number, attributes, 0, -1, -1, _CLOSE_ON_EXEC)
    return file if file >= 0 else -ctypes.get_errno()


def _read(file: int) -> CounterReading:
    count, enabled, running = struct.unpack("QQQ", os.read(file, 24))
    if running == 0 or running >= enabled:
        return CounterReading(count)
    return CounterReading(round(count * enabled / running), scaled=True)
