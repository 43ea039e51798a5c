"""Remove folders that a kernel has filled, of any depth, without recursion, and outside of the loop.

A kernel may nest folders without end. A path is then longer than the system takes, and a walk deeper than a stack.
So no path is followed. Whatever lies two folders deep is moved up to the top first, by descriptors, and nothing is
ever deeper. A folder that cannot be removed (a mount, an immutable file) is set aside under another name and
reported.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
import time
from pathlib import Path
from queue import SimpleQueue

logger = logging.getLogger("rpc_server")

ASIDE = "tunefarm-aside-"
_PATIENCE_S = 60.0
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> bool:
    """Delete a folder and its contents. False when something is left; that was set aside and reported.

    Nobody may be writing to it any more. Links are removed, not followed.
    """
    try:
        _empty(folder)
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        _set_aside(folder, error)
        return False
    return True


def _empty(folder: Path) -> None:
    """Remove everything that can be removed, then raise OSError for the first thing that cannot."""
    top = os.open(folder, _OPEN)
    problem: OSError | None = None
    number = 0
    give_up = time.monotonic() + _PATIENCE_S
    try:
        _permit(top)
        left: set[str] = set()
        while names := [entry for entry in _names(top) if entry not in left]:
            if time.monotonic() > give_up:
                raise TimeoutError(errno.ETIMEDOUT, "something still writes there, or there is too much to remove")
            for name in names:
                try:
                    if not _is_folder(top, name):
                        os.unlink(name, dir_fd=top)
                        continue
                    number = _raise_contents(top, name, number)
                    os.rmdir(name, dir_fd=top)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    left.add(name)
                    problem = problem or error
    finally:
        os.close(top)
    if problem is not None:
        raise problem


def _raise_contents(top: int, name: str, number: int) -> int:
    """Remove the files of a folder below `top`, and move its folders up beside it."""
    try:
        below = os.open(name, _OPEN, dir_fd=top)
    except PermissionError:
        _permit_name(top, name)
        below = os.open(name, _OPEN, dir_fd=top)
    try:
        _permit(below)
        for inner in _names(below):
            if _is_folder(below, inner):
                number += 1
                with contextlib.suppress(PermissionError):  # a folder is moved by who may write to it
                    _permit_name(below, inner)
                os.rename(inner, f".{number:x}.{os.urandom(6).hex()}", src_dir_fd=below, dst_dir_fd=top)
            else:
                os.unlink(inner, dir_fd=below)
    finally:
        os.close(below)
    return number


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def _is_folder(parent: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _permit(folder: int) -> None:
    """Its owner may have taken our right to change it away."""
    if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.fchmod(folder, 0o700)


def _permit_name(parent: int, name: str) -> None:
    """The same for a folder that cannot even be opened. Never follows a link."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)


def _set_aside(folder: Path, error: OSError) -> None:
    aside = folder.with_name(f"{ASIDE}{os.urandom(6).hex()}")
    try:
        os.rename(folder, aside)
    except OSError:
        aside = folder
    logger.error("%s cannot be removed and is left: %s", aside, error.strerror or error)


class Remover:
    """Removes folders in a thread of its own, in the order they are given."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Path | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def remove(self, folder: Path) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="remover", daemon=True)
            self._thread.start()
        self._queue.put(folder)

    def finish(self, timeout_s: float) -> None:
        """Wait until what was given is gone, but not for ever."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout_s)
            self._thread = None

    def _run(self) -> None:
        while (folder := self._queue.get()) is not None:
            try:
                remove_tree(folder)
            except Exception:  # a defect leaves a folder, which the next start finds
                logger.exception("a folder was left")
