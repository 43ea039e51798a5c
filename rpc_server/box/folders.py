"""The private folder of a running server, what sessions take in it, and the removal of what killed servers left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path

_PREFIX = "tunefarm-server-"
_LOCK = "lock"
_MOST_FILES = 10_000


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
                    shutil.rmtree(folder, ignore_errors=True)
                    removed += 1
        return removed

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def move_files(source: Path, home: Path) -> None:
    """Move what a session that goes on has in its folder to another, whose owner gets it. Both are on one disk, and no
    process has either open. What is more than a session has a use for stays behind."""
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
    """Bytes on disk below a folder that somebody else may be writing to. More files than a session has a use for count
    as no end of bytes: looking at them must not take long."""
    used = files = 0
    for parent, folders, names in os.walk(folder):
        files += len(folders) + len(names)
        if files > _MOST_FILES:
            return sys.maxsize
        for name in names:
            with contextlib.suppress(OSError):
                used += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return used


def _is_abandoned(folder: Path) -> bool:
    """Nobody holds the folder's lock. Without a lock file it may be just being made."""
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
