"""A server's private folder, what sessions take in it, and the removal of killed servers' folders."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
from pathlib import Path

from rpc_server.box.removal import remove_tree

_PREFIX = "tunefarm-server-"
_LOCK = "lock"
_MOST_FILES = 10_000
_DEEPEST = 32


class ServerFolder:
    """A fresh folder, locked while its server lives. `shared`: others may pass through it (not list it)."""

    def __init__(self, parent: Path, *, shared: bool = False) -> None:
        self._parent = parent
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if shared:
            self.path.chmod(0o711)

    def remove_leftovers(self) -> int:
        """Delete folders of this user's servers that ended without cleaning up; return how many."""
        removed = 0
        for folder in self._parent.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                if folder != self.path and folder.stat().st_uid == os.geteuid() and _is_abandoned(folder):
                    remove_tree(folder)
                    removed += 1
        return removed

    def remove(self) -> None:
        remove_tree(self.path)
        os.close(self._lock)


def move_files(source: Path, home: Path) -> None:
    """Move a continuing session's files to another folder, whose owner gets them.
    Both are on one disk, and no process has either open. Files beyond a session's limits stay behind."""
    owner = home.stat()
    moved = []
    with os.scandir(source) as entries:
        for entry, _ in zip(entries, range(_MOST_FILES), strict=False):
            with contextlib.suppress(OSError):
                os.rename(entry.path, home / entry.name)
                moved.append(os.path.join(home, entry.name))
    if source.stat().st_uid == owner.st_uid:
        return
    left = _MOST_FILES
    while moved and left:
        path = moved.pop()
        left -= 1
        with contextlib.suppress(OSError):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
            if os.path.isdir(path) and not os.path.islink(path):
                moved += (os.path.join(path, name) for name in os.listdir(path)[:left])


def disk_usage(folder: Path) -> int:
    """Bytes on disk below a folder that somebody else may be writing to.
    Too many files, or folders nested too deep, count as infinitely many bytes, because looking at them must not take
    long."""
    used = files = 0
    waiting = [(str(folder), 0)]
    while waiting:
        path, depth = waiting.pop()
        try:
            entries = os.scandir(path)
        except OSError:  # it is gone, or may not be looked at: then nobody's files can be reached through it either
            continue
        with entries:
            for entry in entries:
                files += 1
                if files > _MOST_FILES or depth > _DEEPEST:
                    return sys.maxsize
                with contextlib.suppress(OSError):
                    used += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
    return used


def _is_abandoned(folder: Path) -> bool:
    """Whether nobody holds the folder's lock. A folder without a lock file may be just being made."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)
