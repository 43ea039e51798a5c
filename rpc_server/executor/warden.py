"""The process around an executor; `rpc_server.executor.fork_server` forks it.

There are up to three processes. The *warden* is the supervisor's child and stays outside. It ends everything when
the server is gone, however that died, and ends as the executor did. With full isolation its child is *process 1* of
the namespaces, which shows the executor its view of the machine and collects orphans. The *executor* runs the
clients' code.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import struct
import sys
from typing import NoReturn

from rpc_server.executor.main import run
from rpc_server.isolation.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, drop_capabilities, name_process, prctl
from rpc_server.isolation.levels import Level
from rpc_server.isolation.limits import EACH, die_with_parent, ids_of, number_of_each
from rpc_server.isolation.namespaces import separate
from rpc_server.isolation.view import enter
from rpc_server.machine.processes import ExecutorSettings, children_of
from rpc_server.wire.stream import lane_listener

NAME = "tunefarm-warden"
_STATUS = struct.Struct("i")


def main(settings: ExecutorSettings) -> int:
    """Run the warden of an executor, and in its forks process 1 and the executor. Returns the exit status."""
    name_process(NAME)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for group in settings.groups:
        with open(group, "wb") as file:
            file.write(b"0")
    ids = _identity(settings)
    if ids is not None:
        os.chown(settings.folder, *ids)
    listener = lane_listener()  # in the machine's network, which the executor is about to leave
    status_read, status_write = os.pipe()
    if settings.isolation is Level.FULL:
        separate()
    warden = os.getpid()
    child = os.fork()
    if not child:
        os.close(status_read)
        os.close(settings.lifeline)
        if settings.isolation is Level.FULL:
            _process_1(settings, ids, listener, status_write)
        die_with_parent(warden)
        os.setpgid(0, 0)  # of its own, which can be killed at one blow
        os.close(status_write)
        return run(settings, ids, listener)
    os.close(status_write)
    _let_go(settings, listener)
    return _stand_by(settings.lifeline, child, status_read)


def _identity(settings: ExecutorSettings) -> tuple[int, int] | None:
    """The user and group that the executor becomes."""
    if not settings.user:
        return None
    if settings.user == EACH:
        number = number_of_each(os.getpid())
        return number, number
    return ids_of(settings.user)


def _let_go(settings: ExecutorSettings, listener: socket.socket) -> None:
    """Close descriptors that only the executor may hold, so that the other ends see it end."""
    listener.close()
    for fd in (settings.socket, settings.window):
        if fd >= 0:
            os.close(fd)


# --- outside -------------------------------------------------------------------------------------------------


def _stand_by(lifeline: int, child: int, told: int) -> int:
    """Wait for the end of all that runs inside, and end as the executor did.
    Its status is `told` by process 1."""
    _wait_for_end(lifeline, child)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)  # before its number is free for another
    status = os.waitpid(child, 0)[1]
    _sweep()
    if len(words := os.read(told, _STATUS.size)) == _STATUS.size:
        (status,) = _STATUS.unpack(words)
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _wait_for_end(lifeline: int, child: int) -> None:
    """Wait until the child has ended; kill it when the supervisor lets go of the lifeline."""
    pidfd = os.pidfd_open(child)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if pidfd in ready:
            return
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poll.unregister(lifeline)


def _sweep() -> None:
    """Kill and collect what the executor left behind: orphans become children of this process."""
    while True:
        for pid in children_of(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return


# --- inside --------------------------------------------------------------------------------------------------


def _process_1(
    settings: ExecutorSettings, ids: tuple[int, int] | None, listener: socket.socket, report: int
) -> NoReturn:
    """Start the executor, show it its view, collect orphans, and report how the executor ended."""
    die_with_parent()
    asked_read, asked_write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if not child:
        for fd in (report, asked_read, done_write):
            os.close(fd)

        def isolate() -> None:
            os.write(asked_write, b"!")
            if os.read(done_read, 1) != b"!":
                sys.exit("the executor's view of the machine could not be made")
            os.close(asked_write)
            os.close(done_read)
            os.chdir(settings.folder)

        die_with_parent()
        if ids is None:
            drop_capabilities()  # of its user namespace
        os._exit(run(settings, ids, listener, isolate))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for fd in (asked_write, done_read):
        os.close(fd)
    _let_go(settings, listener)
    if os.read(asked_read, 1):
        enter(settings.folder, settings.scratch, settings.libraries, gpu=bool(settings.gpu))
        prctl(PR_SET_DUMPABLE, 0)  # nobody of the same user may look in, or trace it
        os.write(done_write, b"!")
    os.close(asked_read)
    os.close(done_write)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            os.write(report, _STATUS.pack(status))
            os._exit(0)
