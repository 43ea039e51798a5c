"""Objects that describe themselves: a section of the object file holds its artifact, without the code.

The section holds records of (magic, length, artifact without its object code). The linker joins the records of all
objects in a library. Imported modules travel in the record as blobs "import.<i>", whole artifacts with imports of their
own. Static libraries and addons travel as blobs "linked.<i>", except in a shared library, where the linker includes
them.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from compiler.artifact import Artifact
from compiler.errors import ArtifactError
from compiler.runtime.files.elf_section import elf_kind, with_section

SECTION = ".tunefarm"
IMPORT = "import."
ORIGINAL = "original"
MOST_NESTED = 16
_RECORD = struct.Struct("<8sQ")
_RECORD_MAGIC = b"TFMODULE"
_ORIGINAL_LAYOUT = struct.Struct("<32sQ64s")
_ELF_HEADER = 64


def described(support: bytes, whole: Artifact) -> bytes:
    """Write, in a text for a compiler, an object with the section for an artifact whose code is elsewhere."""
    blobs = {name: blob for name, blob in whole.blobs.items() if name != "object"}
    record = Artifact(whole.target, whole.cpu_features, whole.entries, blobs, whole.meta).to_bytes()
    return with_section(support, SECTION, _RECORD.pack(_RECORD_MAGIC, len(record)) + record)


def described_object(whole: Artifact) -> bytes:
    """An artifact's object file, with the section that tells `load_module` what is in it."""
    code = whole.blobs.get("object")
    if code is None:
        raise ArtifactError("the module holds no object code to write")
    if elf_kind(code) is None:
        raise ArtifactError(
            f"objects and libraries are written for 64-bit little-endian machines only, not for {whole.target}",
            hint='save or export to a file ending in ".tunefarm"',
        )
    blobs = {name: blob for name, blob in whole.blobs.items() if name != "object"}
    # the new section changes the header and adds to the end, so this much gives the original back
    blobs[ORIGINAL] = _Original(hashlib.sha256(code).digest(), len(code), code[:_ELF_HEADER]).pack()
    record = Artifact(whole.target, whole.cpu_features, whole.entries, blobs, whole.meta).to_bytes()
    return with_section(code, SECTION, _RECORD.pack(_RECORD_MAGIC, len(record)) + record)


class _Original(NamedTuple):
    """How to find an object's original bytes in the file that also describes it."""

    sha256: bytes
    size: int
    header: bytes

    def pack(self) -> bytes:
        return _ORIGINAL_LAYOUT.pack(*self)

    def restore(self, data: bytes) -> bytes:
        code = self.header + data[_ELF_HEADER : self.size]
        if len(code) != self.size or hashlib.sha256(code).digest() != self.sha256:
            raise ArtifactError("its code is damaged: it does not match its sha256")
        return code


def with_object(record: Artifact, data: bytes) -> Artifact:
    """The whole artifact: a record, and the object file it was in."""
    blobs = dict(record.blobs)
    packed = blobs.pop(ORIGINAL, b"")
    if len(packed) != _ORIGINAL_LAYOUT.size:
        raise ArtifactError("its description is damaged")
    blobs["object"] = _Original(*_ORIGINAL_LAYOUT.unpack(packed)).restore(data)
    return Artifact(record.target, record.cpu_features, record.entries, blobs, record.meta)


def read_records(section: bytes) -> list[Artifact]:
    records: list[Artifact] = []
    at = 0
    while at < len(section):
        if len(section) - at < _RECORD.size:
            raise ArtifactError("its description is cut short")
        magic, size = _RECORD.unpack_from(section, at)
        at += _RECORD.size
        if magic != _RECORD_MAGIC or size > len(section) - at:
            raise ArtifactError("its description is damaged")
        records.append(Artifact.from_bytes(section[at : at + size]))
        at += size
    if not records:
        raise ArtifactError("its description is empty")
    return records
