"""Executor processes as the supervisor handles them.

Start, watch, kill, and the report of how one ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from rpc_server.isolation.levels import Level
from rpc_server.machine.crash import ExitReport
from rpc_server.wire.shared_window import WINDOW_SIZE, SharedWindow, make_window_memory
from rpc_server.wire.stream import FrameStream, stream_pair

_STDERR_KEPT = 8192
_STDERR_LINES = 30
_STDERR_BURST = 16
_MOST_PROCESSES = 4096
_FILES_EVERY = 10
_WINDOWS = 2 * WINDOW_SIZE
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ExecutorSettings(msgspec.Struct, frozen=True):
    """The settings that an executor gets at its start, as JSON. Sizes in bytes.

    `socket`, `window` and `lifeline` are descriptors that it is given; -1: none. The last ends it when its other end
    closes. `folder` is where it works: its session's, if it gets one. `user` is whom to become when started as root
    ("" to stay). `isolation` is how far it is kept from all else, and `scratch` the size of its own /tmp and /dev/shm;
    `groups` are the files of control groups that it joins. `memory_limit` bounds what it may allocate on top of what it
    takes when idle. `disk_limit` bounds the size of a file it may write, and `max_processes` what it may add to the
    processes and threads of its user. `cpus` pins it; empty: every core the server may use. `gpu` is the UUID of the
    one GPU it sees. `plugins` are the backends that installed distributions add (see `compiler.target.entry_points`).
    """

    executor: int = 0
    socket: int = -1
    window: int = -1
    lifeline: int = -1
    folder: str = ""
    user: str = ""
    isolation: Level = Level.NONE
    scratch: int = 64 << 20
    groups: tuple[str, ...] = ()
    memory_limit: int | None = None
    max_open_files: int = 1024
    max_processes: int = 512
    disk_limit: int | None = None
    cpus: tuple[int, ...] = ()
    libraries: tuple[str, ...] = ()
    gpu: str = ""
    plugins: dict[str, dict[str, tuple[str, str]]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Bytes: resident, and address space in all."""

    resident: int
    address_space: int


class ExecutorProcess:
    """One executor and its warden, which is the child, and leader of its own session and process group.

    `stream` talks to the executor, without blocking. `start` forks it, and gives it descriptors
    (`ExecutorStarter.start`). Raises OSError when it cannot be started.
    """

    def __init__(self, settings: ExecutorSettings, start: Callable[[ExecutorSettings, Sequence[int]], int]) -> None:
        ours, theirs = stream_pair()
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as given, theirs:
            on_failure.callback(ours.close)
            shared = _window_memory(given)
            window = None if shared < 0 else SharedWindow(shared, made=True)
            lifeline, holds = os.pipe()
            given.callback(os.close, lifeline)
            on_failure.callback(os.close, holds)
            read_end, write_end = os.pipe()
            on_failure.callback(os.close, read_end)
            given.callback(os.close, write_end)
            handed = (write_end, lifeline, theirs.fileno(), shared)
            self.warden = start(settings, [fd for fd in handed if fd >= 0])
            self.pidfd = os.pidfd_open(self.warden)
            on_failure.pop_all()
        ours.setblocking(False)
        os.set_blocking(read_end, False)
        self.number = settings.executor
        self.pid = self.warden
        """The executor's, once it is warm."""
        self._inner: int | None = None  # a pidfd of the warden's child: when that is killed, so is all below
        self._executor: int | None = None
        self._lifeline: int | None = holds
        self._group_head = self.warden  # orphans of the executor become its children
        self._samples = self._hidden = 0
        self._private = settings.isolation is Level.FULL
        self.stream = FrameStream(ours, window=window)
        self.waits_to_write = False
        self.stderr_fd: int | None = read_end
        self._stderr = b""
        self._base_address_space = 0
        self._last_address_space = 0
        self._oom_kills = _kernel_oom_kills()

    def read_stderr(self) -> None:
        """Take what the child wrote, keeping only the end of it; a child that floods gets its turn again."""
        for _ in range(_STDERR_BURST):
            if self.stderr_fd is None:
                return
            try:
                data = os.read(self.stderr_fd, 65536)
            except BlockingIOError:
                return
            if not data:
                self.close_stderr()
                return
            self._stderr = (self._stderr + data)[-_STDERR_KEPT:]

    def close_stderr(self) -> None:
        if self.stderr_fd is not None:
            os.close(self.stderr_fd)
            self.stderr_fd = None

    def sample_memory(self) -> MemorySample | None:
        """Read the child's size; None when it is gone."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:
                pages = file.read().split()
            sample = MemorySample(int(pages[1]) * _PAGE, int(pages[0]) * _PAGE)
        except (OSError, IndexError):
            return None
        if sample.address_space:
            self._last_address_space = sample.address_space
        return sample

    def session_memory(self) -> int | None:
        """Return the bytes that the executor, all it started, and what they wrote to memory take together.

        None when it is gone. Pages that processes share are counted once. Memory files that nobody maps are looked for
        now and then.
        """
        alone = self.sample_memory()
        if alone is None:
            return None
        pids = [self.pid, *_below(self.pid)] if self.pid == self.warden else _below(self._group_head)
        total = alone.resident if len(pids) <= 1 else sum(map(_share_of_memory, pids))
        if self._private:
            total += sum(_used(f"/proc/{self.pid}/root{path}") for path in ("/tmp", "/dev/shm"))
        self._samples += 1
        if self._samples % _FILES_EVERY == 0:
            self._hidden = _hidden_memory(pids)
        return total + self._hidden

    def note_warm(self) -> None:
        """Find the executor below its warden, and remember its size before it runs anything."""
        below = [self.warden]
        while len(below) < (3 if self._private else 2) and (children := children_of(below[-1])):
            below.append(children[0])
        if len(below) > 1:
            self.pid, self._group_head = below[-1], below[-2]
            with contextlib.suppress(OSError):
                self._inner = os.pidfd_open(below[1])
                self._executor = os.pidfd_open(self.pid)
        self.sample_memory()
        self._base_address_space = self._last_address_space

    def finish(self) -> None:
        """SIGKILL an executor that has hung up, if it still runs, and leave the rest to its warden.
        The warden says how it ended. One that never became warm ends by itself, or at its deadline."""
        if self._executor is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._executor, signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL the executor and all it started. Its warden ends when that is done."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGCONT)  # an executor of the same user may have stopped it
        if self._inner is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)

    def reap(self) -> ExitReport:
        """Collect a child that has ended (its pidfd is readable), and close everything held for it."""
        self.read_stderr()
        self.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.warden, signal.SIGKILL)  # what it left behind in its group
        _, status, usage = os.wait4(self.warden, 0)
        code = os.waitstatus_to_exitcode(status)
        self.close_stderr()
        self.stream.close()
        os.close(self.pidfd)
        for fd in (self._inner, self._executor):
            if fd is not None:
                os.close(fd)
        self._inner = self._executor = None
        return ExitReport(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stderr=self._last_lines(),
            peak_memory=usage.ru_maxrss * 1024,
            last_address_space=self._last_address_space,
            base_address_space=self._base_address_space,
            kernel_out_of_memory=_kernel_oom_kills() > self._oom_kills,
        )

    def _last_lines(self) -> str:
        lines = self._stderr.decode(errors="replace").splitlines()
        return "\n".join(lines[-_STDERR_LINES:])


def _window_memory(given: contextlib.ExitStack) -> int:
    """A descriptor that `given` closes.
    -1 if the system gives no such memory; all bytes then go by the socket."""
    try:
        fd = make_window_memory()
    except OSError:
        return -1
    given.callback(os.close, fd)
    return fd


def children_of(pid: int) -> list[int]:
    """The processes that another one started and has not waited for."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _below(pid: int) -> list[int]:
    """A process's children, theirs, and so on."""
    found: list[int] = []
    open_ = [pid]
    while open_ and len(found) < _MOST_PROCESSES:
        children = children_of(open_.pop())
        found += children
        open_ += children
    return found


def _share_of_memory(pid: int) -> int:
    """Bytes of a process's memory. Pages that several processes share count by its share."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) << 10
    return 0


def _used(path: str) -> int:
    """Bytes that a file system in memory takes."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return 0
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def _hidden_memory(pids: list[int]) -> int:
    """Bytes in memory files that processes have open and do not map.
    Those shared with the box and client are left out."""
    files: dict[tuple[int, int], int] = {}
    mapped = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    path = f"/proc/{pid}/fd/{name}"
                    if os.readlink(path).startswith("/memfd:"):
                        found = os.stat(path)
                        files[found.st_dev, found.st_ino] = found.st_blocks * 512
            with open(f"/proc/{pid}/status", "rb") as file:
                mapped += sum(int(line.split()[1]) << 10 for line in file if line.startswith(b"RssShmem:"))
    return max(0, sum(files.values()) - mapped - _WINDOWS)


def _kernel_oom_kills() -> int:
    """How many processes the kernel's out-of-memory killer has killed since boot."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0
