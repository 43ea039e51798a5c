"""Shared libraries written by `export_library`, mapped into this process."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
import threading
from pathlib import Path

from compiler.errors import ArtifactError
from compiler.runtime.core import native

_lock = threading.Lock()
_mapped: dict[Path, tuple[bytes, ctypes.CDLL]] = {}
"""Libraries mapped from their own files, with the digest of what the file held."""


def _after_fork() -> None:
    """Nobody in the forked child would release the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class SharedLibrary:
    """A library's code.
    It has a thread pool of its own, which `set_num_threads` and `set_affinity` also govern."""

    def __init__(self, file: Path, data: bytes) -> None:
        """`data`: what the file held when it was checked. Raises ArtifactError when the system cannot load it."""
        self._library = _open(file.resolve(), data)

    def address(self, symbol: str) -> int:
        """The address of a function. Raises ArtifactError when the library does not define it."""
        try:
            function = getattr(self._library, symbol)
        except AttributeError:
            raise ArtifactError(f"the library does not define {symbol}") from None
        return ctypes.cast(function, ctypes.c_void_p).value or 0


def _open(path: Path, data: bytes) -> ctypes.CDLL:
    """Return a path to load.
    The system keeps one library a path, so a changed file is loaded from a copy."""
    digest = hashlib.sha256(data).digest()
    with _lock:
        before, library = _mapped.get(path, (None, None))
        if library is None:
            library = _load(str(path))
            _mapped[path] = digest, library
            return library
        if before == digest:
            return library
    with tempfile.NamedTemporaryFile(prefix="tunefarm-", suffix=path.suffix) as copy:
        copy.write(data)
        copy.flush()
        return _load(copy.name)


def _load(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise ArtifactError(f"the system cannot load it: {error}") from None
    if hasattr(library, "tunefarm_set_cores"):  # else linked by somebody who left the pool to the program
        native.add_pool(native.Pool.of(library))
    return library
