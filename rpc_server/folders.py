"""The private folder of a running server, and the removal of what killed servers left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "tunefarm-server-"
_LOCK = "lock"


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
