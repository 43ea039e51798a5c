"""The process that a server's executors are forked from.

`python -m rpc_server.executor.fork_server SETTINGS`.

It imports and uses once what every executor needs, so an executor only costs a fork and its isolation. It has one
thread and runs no code of clients. It is a program of its own, so it has none of the server's memory. Its
environment holds nothing secret (`executor_environment`). Only the supervisor talks to it, over an inherited socket;
when that closes it ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import traceback
from typing import NoReturn

import msgspec

from rpc_server.executor import warden
from rpc_server.executor.main import warm_up
from rpc_server.isolation.kernel import PR_SET_DUMPABLE, prctl
from rpc_server.machine.executor_starter import MOST_GIVEN, PID, READY
from rpc_server.machine.processes import ExecutorSettings

_LONGEST = 1 << 20


def main(text: str) -> int:
    """Fork an executor for each settings that come, until the supervisor is gone."""
    settings = msgspec.json.decode(text, type=ExecutorSettings)
    control = socket.socket(fileno=settings.socket)
    control.set_inheritable(False)
    warm_up(gpu=bool(settings.gpu))
    with contextlib.suppress(OSError):
        prctl(PR_SET_DUMPABLE, 0)  # nobody of the same user may look in, or trace it
    gc.collect()
    gc.freeze()  # what is here already is no executor's to collect, which would copy it
    try:
        control.send(READY)
        while True:
            asked, given, _, _ = socket.recv_fds(control, _LONGEST, MOST_GIVEN, socket.MSG_CMSG_CLOEXEC)
            if not asked:
                return 0
            try:
                pid = _start(control, msgspec.json.decode(asked, type=ExecutorSettings), given)
            finally:
                for fd in given:
                    os.close(fd)
            control.send(PID.pack(pid))
    except ConnectionError:
        return 0


def _start(control: socket.socket, settings: ExecutorSettings, given: list[int]) -> int:
    """Fork a warden and hand it to the supervisor, which adopts orphans.
    Returns its number, or 0 on failure."""
    told, tell = os.pipe()
    try:
        between = os.fork()
        if not between:
            _hand_over(control, settings, given, tell)
        os.close(tell)
        tell = -1
        os.waitpid(between, 0)
        words = os.read(told, PID.size)
    except OSError:
        return 0
    finally:
        os.close(told)
        if tell >= 0:
            os.close(tell)
    return int(PID.unpack(words)[0]) if words else 0


def _hand_over(control: socket.socket, settings: ExecutorSettings, given: list[int], tell: int) -> NoReturn:
    """Fork the warden, say which it is, and end."""
    status = 1
    try:
        pid = os.fork()
        if pid:
            os.write(tell, PID.pack(pid))
            os._exit(0)
        control.close()
        os.close(tell)
        status = _become_warden(settings, given)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _become_warden(settings: ExecutorSettings, given: list[int]) -> int:
    os.setsid()
    output, lifeline, stream, *window = given
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    with contextlib.suppress(OSError):
        prctl(PR_SET_DUMPABLE, 1)  # as a program that was started: it may have to write to files of its own in /proc
    os.chdir(settings.folder)
    return warden.main(
        msgspec.structs.replace(settings, lifeline=lifeline, socket=stream, window=window[0] if window else -1)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
