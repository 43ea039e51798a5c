"""Files of one session: plain names inside its folder, nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from rpc_server.errors import RemoteFileError
from rpc_server.wire.codec import Buffer

_NAME = re.compile(r"[A-Za-z0-9_+=@%,-][A-Za-z0-9_.+=@%, -]{0,199}")


def check_name(name: str) -> str:
    """The name, if it may stand in a session's folder.
    Raises RemoteFileError for paths and odd characters."""
    if not _NAME.fullmatch(name):
        raise RemoteFileError(
            f"{name[:80]!r} cannot name a file of the session",
            hint="use a plain file name: letters, digits and ._+-=@%, without any folder",
        )
    return name


class SessionFiles:
    """Names are checked here as well as by the client. Links are not followed."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def path(self, name: str) -> Path:
        return self.folder / check_name(name)

    def write(self, name: str, data: Buffer) -> None:
        """Make or replace a file. When its bytes do not fit, there is none of that name."""
        try:
            file = self._open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                with file:
                    file.write(data)
            except OSError:
                os.unlink(self.path(name))
                raise
        except OSError as error:
            raise RemoteFileError(f"cannot write {name!r}: {error.strerror}") from None

    def read(self, name: str, offset: int = 0, nbytes: int | None = None) -> tuple[int, bytes]:
        """(size of the file, up to `nbytes` of it from `offset`)."""
        try:
            with self._open(name, os.O_RDONLY) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(offset)
                return size, file.read() if nbytes is None else file.read(nbytes)
        except OSError as error:
            raise RemoteFileError(f"cannot read {name!r}: {error.strerror}") from None

    def remove(self, name: str) -> None:
        try:
            os.unlink(self.path(name))
        except OSError as error:
            raise RemoteFileError(f"cannot remove {name!r}: {error.strerror}") from None

    def _open(self, name: str, flags: int) -> BinaryIO:
        descriptor = os.open(self.path(name), flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "wb" if flags & os.O_WRONLY else "rb")
