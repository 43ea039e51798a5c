"""Executor processes as the supervisor handles them: start, watch, kill, and the report of how one ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass

import msgspec

from rpc_server.box.children import PYTHON, environment
from rpc_server.box.crash import ExitReport
from rpc_server.box.stray_processes import MARK
from rpc_server.gpu.gpus import visible
from rpc_server.wire.shared_window import Window, make_window_memory
from rpc_server.wire.stream import FrameStream, stream_pair

_STDERR_KEPT = 8192
_STDERR_LINES = 30
_STDERR_BURST = 16
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ExecutorSettings(msgspec.Struct, frozen=True):
    """What an executor is told at birth, as JSON on its command line. Sizes in bytes.

    `socket` and `window` are descriptors it inherits; -1: none.
    `folder` is where it works: its session's, if it gets one. `user` is whom to become when started as root ("" to
    stay). `memory_limit` bounds what it may allocate on top of what it takes when idle, `disk_limit` the size of a file
    it may write, and `max_processes` what it may add to the processes and threads of its user. `cpus` pins it; empty:
    every core the server may use. `gpu` is the UUID of the one GPU it sees.
    """

    executor: int = 0
    socket: int = -1
    window: int = -1
    parent: int = 0
    folder: str = ""
    user: str = ""
    memory_limit: int | None = None
    max_open_files: int = 1024
    max_processes: int = 512
    disk_limit: int | None = None
    cpus: tuple[int, ...] = ()
    libraries: tuple[str, ...] = ()
    gpu: str = ""


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Bytes: resident, and address space in all."""

    resident: int
    address_space: int


class ExecutorProcess:
    """One child, leader of its own session and process group. `stream` talks to it, without blocking.

    Raises OSError when it cannot be started.
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        ours, theirs = stream_pair()
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as given, theirs:
            on_failure.callback(ours.close)
            shared = _window_memory(given)
            window = None if shared < 0 else Window(shared, made=True)
            settings = msgspec.structs.replace(settings, socket=theirs.fileno(), window=shared, parent=os.getpid())
            read_end, write_end = os.pipe()
            on_failure.callback(os.close, read_end)
            try:
                self._child = subprocess.Popen(
                    [*PYTHON, "-m", "rpc_server.executor.main", msgspec.json.encode(settings).decode()],
                    cwd=settings.folder,
                    env={**_environment(), **(visible(settings.gpu) if settings.gpu else {})},
                    stdin=subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=write_end,
                    pass_fds=tuple(fd for fd in (theirs.fileno(), shared) if fd >= 0),
                    start_new_session=True,
                )
            finally:
                os.close(write_end)
            on_failure.callback(self._child.kill)
            self.pidfd = os.pidfd_open(self._child.pid)
            on_failure.pop_all()
        ours.setblocking(False)
        os.set_blocking(read_end, False)
        self.number = settings.executor
        self.pid = self._child.pid
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

    def note_warm(self) -> None:
        """Remember its size before it runs anything."""
        self.sample_memory()
        self._base_address_space = self._last_address_space

    def kill(self) -> None:
        """SIGKILL the child and everything in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def reap(self) -> ExitReport:
        """Collect a child that has ended (its pidfd is readable), and close everything held for it."""
        self.read_stderr()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it left behind in its group
        _, status, usage = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._child.returncode = code
        self.close_stderr()
        self.stream.close()
        os.close(self.pidfd)
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
    """A descriptor that `given` closes, or -1 where the system has no such memory to give: all goes by the socket."""
    try:
        fd = make_window_memory()
    except OSError:
        return -1
    given.callback(os.close, fd)
    return fd


def _environment() -> dict[str, str]:
    """The server's environment, with this package importable and numpy kept from starting threads."""
    more = {"PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", MARK: str(os.getpid())}
    return environment(**more)


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
