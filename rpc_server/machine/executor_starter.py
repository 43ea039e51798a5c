"""The supervisor's end of the fork server of executors (see `rpc_server.executor.fork_server`)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rpc_server.machine.children import PYTHON, executor_environment
from rpc_server.machine.crash import ExitReport
from rpc_server.machine.gpus import visible
from rpc_server.machine.leftover_processes import MARK
from rpc_server.machine.processes import ExecutorSettings

READY = b"ready"
PID = struct.Struct("i")
MOST_GIVEN = 4
_ANSWERS_S = 5.0
_STDERR_KEPT = 8192


class ExecutorStarter:
    """One such process, which works in `folder`.
    It becomes `ready` later: whoever waits watches `fileno()`, and calls `look` when there is something to read.
    Raises OSError when it cannot be started."""

    def __init__(self, settings: ExecutorSettings, folder: Path) -> None:
        self.ready = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWERS_S)
        with contextlib.ExitStack() as on_failure, theirs:
            on_failure.callback(self._control.close)
            self._stderr, write_end = os.pipe()
            on_failure.callback(os.close, self._stderr)
            told = msgspec.structs.replace(settings, socket=theirs.fileno())
            try:
                self._child = subprocess.Popen(
                    [*PYTHON, "-m", "rpc_server.executor.fork_server", msgspec.json.encode(told).decode()], cwd=folder,
                    env=_environment(settings.gpu), stdin=subprocess.DEVNULL, stdout=write_end, stderr=write_end,
                    pass_fds=(theirs.fileno(),), start_new_session=True,
                )  # fmt: skip
            finally:
                os.close(write_end)
            on_failure.pop_all()
        os.set_blocking(self._stderr, False)
        self.pid = self._child.pid

    def fileno(self) -> int:
        return self._control.fileno()

    def look(self) -> bool:
        """Take what it says; false when it has ended, or says what it should not."""
        with contextlib.suppress(OSError):
            self.ready = self._control.recv(len(READY)) == READY
            return self.ready
        return False

    def start(self, settings: ExecutorSettings, given: Sequence[int]) -> int:
        """Fork a warden, which becomes this process's child; its number.

        `given` are the descriptors that it gets: where it writes, its lifeline, its stream, and a window if there is
        one. Raises OSError; after a late or strange answer this starter is of no more use: `end` it.
        """
        socket.send_fds(self._control, [msgspec.json.encode(settings)], given)
        words = self._control.recv(PID.size)
        pid = int(PID.unpack(words)[0]) if len(words) == PID.size else 0
        if pid <= 0:
            raise OSError(0, "an executor could not be forked")
        return pid

    def end(self) -> ExitReport:
        """Kill it, which no executor notices, and tell how it ended."""
        self._child.kill()
        code = self._child.wait()
        text = b""
        with contextlib.suppress(BlockingIOError):
            text = os.read(self._stderr, _STDERR_KEPT)
        os.close(self._stderr)
        self._control.close()
        return ExitReport(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stderr=text.decode(errors="replace"),
        )


def _environment(gpu: str) -> dict[str, str]:
    """The environment of executors.
    It has none of the server's secrets, the one GPU they see, and no threads for numpy."""
    more = {"PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", MARK: str(os.getpid())}
    return executor_environment(**more, **(visible(gpu) if gpu else {}))
