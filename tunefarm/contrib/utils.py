"""Temporary folders, locks on files, and programs of the search path."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

__all__ = ["FileLock", "TempDirectory", "filelock", "is_source_path", "tempdir", "which"]

_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cl", ".ll", ".s", ".py")


class TempDirectory:
    """A folder that goes away with this object, with `remove()`, or at the end of a `with`.

    `custom_path` names a folder to make; it must not exist. `keep_for_debug` leaves the folder in place, and so does
    `with TempDirectory.set_keep_for_debug():` around its making.
    """

    _keeping: ClassVar[bool] = False

    @classmethod
    @contextmanager
    def set_keep_for_debug(cls, set_to: bool = True) -> Iterator[None]:
        """Leave the folders that are made meanwhile in place."""
        before, cls._keeping = cls._keeping, set_to
        try:
            yield
        finally:
            cls._keeping = before

    def __init__(self, custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool = False) -> None:
        if custom_path is None:
            self.temp_dir = tempfile.mkdtemp(prefix="tunefarm-")
        else:
            os.mkdir(custom_path)
            self.temp_dir = os.fspath(custom_path)
        self._kept = keep_for_debug or self._keeping

    @property
    def path(self) -> str:
        return self.temp_dir

    def relpath(self, name: str) -> str:
        """The path of a file of this name in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """Names of the files and folders in it."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Delete the folder with all that is in it. Harmless when it is gone already."""
        if not self._kept:
            shutil.rmtree(self.temp_dir, ignore_errors=True)

    def __truediv__(self, name: str) -> Path:
        return Path(self.temp_dir) / name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __del__(self) -> None:
        if hasattr(self, "_kept") and shutil is not None:  # None: the interpreter is ending
            self.remove()


def tempdir(custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool = False) -> TempDirectory:
    """A new temporary folder: see `TempDirectory`."""
    return TempDirectory(custom_path, keep_for_debug)


class FileLock:
    """A lock on a file that other processes respect, held until `release` or the end of a `with`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.lock_file = open(path, "w")  # noqa: SIM115  (held until `release`)
        fcntl.lockf(self.lock_file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let go of the lock. Harmless when that is done already."""
        if not self.lock_file.closed:
            fcntl.lockf(self.lock_file, fcntl.LOCK_UN)
            self.lock_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def filelock(path: str | os.PathLike[str]) -> FileLock:
    """Wait for the lock on a file and take it."""
    return FileLock(path)


def is_source_path(path: str) -> bool:
    """Whether `path` looks like the path of a source file, not like source code."""
    return "\n" not in path and path.endswith(_SOURCES)


def which(exec_name: str) -> str | None:
    """The full path of a program, None when there is none."""
    return shutil.which(exec_name)
