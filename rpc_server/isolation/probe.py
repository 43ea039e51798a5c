"""A test of the isolation that this machine's kernel allows, in a process that ends at once."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from rpc_server.isolation import landlock, syscall_filter
from rpc_server.isolation.levels import ROOT, Means
from rpc_server.isolation.limits import EACH, become, ids_of, number_of_each
from rpc_server.isolation.namespaces import separate
from rpc_server.isolation.view import enter

_SCRATCH = 1 << 20


def find_means(user: str, parent: Path) -> Means:
    """Return what can be had here.
    `user` is whom root would have executors become, `parent` holds the sessions' folders."""
    becomes = user if os.geteuid() == 0 and user not in ("", ROOT) else ""
    no_user = _closed(becomes, parent) if becomes else ""
    if becomes and not no_user:
        no_user = _tried(lambda: _become(becomes))
    return Means(
        no_namespaces=_tried(lambda: _enter(becomes, parent)),
        no_user=no_user,
        filters=not _tried(lambda: syscall_filter.filter_system_calls(syscall_filter.Sockets.NONE)),
        landlock=landlock.version(),
    )


def _closed(user: str, parent: Path) -> str:
    """Why a user that is not root could not reach a folder made there."""
    closed = [folder for folder in (parent, *parent.resolve().parents) if not folder.stat().st_mode & 0o001]
    who = "other users" if user == EACH else f"user {user!r}"
    return f"{who} cannot enter {closed[-1]}" if closed else ""


def _become(user: str) -> None:
    number = number_of_each(os.getpid())
    become(*((number, number) if user == EACH else ids_of(user)))


def _enter(user: str, parent: Path) -> None:
    """Enter namespaces and a view as a warden and its process 1 do."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:

        def inside() -> None:
            enter(folder, _SCRATCH, (), gpu=False)
            if user:
                _become(user)

        def outside() -> None:
            separate()
            if problem := _tried(inside):
                raise OSError(0, problem)

        if problem := _tried(outside):
            raise OSError(0, problem)


def _tried(action: Callable[[], None]) -> str:
    """Do something in a child process, and return what went wrong, or ""."""
    told, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: this one only calls the kernel
        child = os.fork()
    if not child:
        problem = ""
        try:
            action()
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            problem = f"{error.strerror}{where}"
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
        os.write(tell, problem.encode()[:2000])
        os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as file:
        problem = file.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    return problem or ("" if status == 0 else "the attempt was killed")
