"""Commands as processes that do not import: `python -m tests.kit.cli.warm FD` forks itself for each.

It has imported the command line, and becomes `python -m tunefarm ARGS` in the child: a process of its own, with its
own pid, signals, files, exit and exit status. What it saves is the imports, most of what a short command costs. What
it cannot show is that they work in a process that has imported nothing: e2e/cli/test_cold.py does.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.places import ROOT

_REQUEST_BYTES = 1 << 20
_LATER = ("alembic.command", "rpc_server.box.server", "tracker.server", "tuner.engine.engine")
_LATER += ("tuner.devices.supplies", "webui.app")
"""Modules that commands import while they run."""


class Command:
    """The part of `subprocess.Popen` that tests use, of a process whose parent is the forking one."""

    def __init__(self, words: Sequence[str], folder: Path, environ: dict[str, str], out: int, err: int) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        said = json.dumps({"args": self.args, "folder": str(folder), "environ": environ}).encode()
        self._socket = ours
        try:
            with theirs:
                socket.send_fds(_forking(), [said], [theirs.fileno(), out, err])
            self.pid = self._number(None)
        except OSError:
            _forget()
            raise

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._number(timeout)
            self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _number(self, timeout: float | None) -> int:
        if not select.select([self._socket], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        said = self._socket.recv(32)
        if not said:
            raise BrokenPipeError("the process that forks the commands is gone")
        return int(said)


_control: socket.socket | None = None


def _forking() -> socket.socket:
    """The way to this process's forking one, started with the first command; it ends with this process."""
    global _control
    if _control is None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            started = subprocess.Popen(
                [sys.executable, "-m", "tests.kit.cli.warm", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        _control = ours

        def end() -> None:
            ours.close()
            started.wait(60)

        atexit.register(end)
    return _control


def _forget() -> None:
    """The next command starts another one."""
    global _control
    _control = None


# --- the process that forks ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    args: list[str]
    folder: str
    environ: dict[str, str]
    out: int
    err: int


def _serve(control: socket.socket) -> _Request | None:
    """Returns in the child of each request with that, and in this process with None when nobody asks any more."""
    waking, woken = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    while True:
        ready = select.select([control, waking], [], [])[0]
        if waking in ready:
            os.read(waking, 4096)
            _tell_who_ended(running)
        if control not in ready:
            continue
        said, (reply, out, err), _, _ = _received(control)
        if not said:
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for fd in (waking, woken, reply, control.detach(), *(s.detach() for s in running.values())):
                os.close(fd)
            return _Request(**json.loads(said), out=out, err=err)
        os.close(out)
        os.close(err)
        running[pid] = socket.socket(fileno=reply)
        _tell(running[pid], pid)


def _received(control: socket.socket) -> tuple[bytes, list[int], int, object]:
    said, fds, flags, where = socket.recv_fds(control, _REQUEST_BYTES, 3)
    return said, fds or [-1, -1, -1], flags, where


def _tell_who_ended(running: dict[int, socket.socket]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as reply:
                _tell(reply, os.waitstatus_to_exitcode(status))


def _tell(reply: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked is gone
        reply.send(str(number).encode())


def _become(request: _Request) -> None:
    """Do what `python -m tunefarm ARGS` does."""
    os.dup2(request.out, 1)
    os.dup2(request.err, 2)
    os.close(request.out)
    os.close(request.err)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environ)
    sys.path[0] = request.folder
    sys.argv = ["tunefarm", *request.args]
    runpy.run_module("tunefarm", run_name="__main__", alter_sys=True)


def _have_patience() -> None:
    """Trackers take nobody for dead whom a busy machine gave no core for some seconds."""
    from tests.kit.farm.tracker import CALM

    init: Any = type(CALM).__init__
    init.__defaults__ = tuple(dataclasses.asdict(CALM).values())


def _main(fd: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on a terminal, Ctrl-C is for pytest
    import importlib

    from tunefarm.cli.commands import COMMANDS

    for command in COMMANDS.values():
        command.load()
    for module in _LATER:
        importlib.import_module(module)
    _have_patience()
    gc.freeze()
    request = _serve(socket.socket(fileno=fd))
    if request is not None:
        _become(request)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
