"""A checksum at the end of a shared library, over everything before it.

The linker decides a library's bytes, so their digest can only be appended when it is done. ELF lets anything follow a
file's last section: loaders do not look there, and tools that rewrite the file, such as strip, leave it out.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from compiler.errors import ArtifactError
from compiler.runtime.files.elf_section import SHARED, elf_end, elf_kind, read_section

_MAGIC = b"TFSEAL01"
_SIZE = len(_MAGIC) + hashlib.sha256().digest_size


def append_checksum(path: Path, section: str) -> None:
    """Append the checksum to a shared library that has the section. Leaves every other file alone."""
    if not path.is_file():
        return
    data = path.read_bytes()
    if elf_kind(data) != SHARED or read_section(data, section) is None:
        return
    with path.open("ab") as file:
        file.write(_MAGIC + hashlib.sha256(data).digest())


def verify_checksum(data: bytes) -> None:
    """Raise ArtifactError unless the library matches its checksum, or has none and ends where ELF says."""
    end = len(data) - _SIZE
    if data[end : end + len(_MAGIC)] == _MAGIC:
        if hashlib.sha256(memoryview(data)[:end]).digest() != data[end + len(_MAGIC) :]:
            raise _changed()
    elif elf_end(data) != len(data):
        raise _changed()


def _changed() -> ArtifactError:
    return ArtifactError(
        "it is damaged, or was changed after it was written: it does not match its sha256", hint="export it again"
    )
