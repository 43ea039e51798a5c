"""A section of our own in an ELF file.

Put into an object, read back from an object or the library linked from it.

Loaders skip the section. Linkers keep it and join those of several objects. It can be read without running any of the
file's code.
"""

from __future__ import annotations

import struct

from compiler.errors import ArtifactError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_PROGBITS = 1
_NOBITS = 8
_TYPE, _OFFSET, _SIZE = 1, 4, 5
_FLAGS = 7  # of a header
_PROGRAM_HEADER = 56
RELOCATABLE, SHARED = 1, 3  # kinds of ELF files


def with_section(data: bytes, name: str, content: bytes) -> bytes:
    """The object file `data` with one more section.
    Raises ArtifactError when `data` is no 64-bit ELF file."""
    header, sections = _sections(data)
    names_at = header[13]
    names = bytes(_content(memoryview(data), sections[names_at]))
    content_at = len(data)
    names_offset = content_at + len(content)
    grown = names + name.encode("ascii") + b"\0"
    sections[names_at] = _moved(sections[names_at], names_offset, len(grown))
    sections.append((len(names), _PROGBITS, 0, 0, content_at, len(content), 0, 0, 1, 0))
    padding = b"\0" * (-(names_offset + len(grown)) % 8)
    table_at = names_offset + len(grown) + len(padding)
    fields = [*header[:6], table_at, *header[7:12], len(sections), names_at]
    table = b"".join(_SECTION.pack(*section) for section in sections)
    return b"".join((_HEADER.pack(*fields), data[_HEADER.size :], content, grown, padding, table))


def read_section(data: bytes, name: str) -> bytes | None:
    """Return what a section holds; None when the file has no such section.

    Raises ArtifactError when `data` is no 64-bit little-endian ELF file, or is cut short.
    """
    found = find_section(memoryview(data), name)
    return None if found is None else bytes(found)


def find_section(data: memoryview, name: str) -> memoryview | None:
    """Return a section as `read_section` does, of a file that is not copied."""
    header, sections = _sections(data)
    names = bytes(_content(data, sections[header[13]]))
    wanted = name.encode("ascii") + b"\0"
    for section in sections:
        if names[section[0] : section[0] + len(wanted)] == wanted:
            return _content(data, section)
    return None


def with_flags_of(data: bytes, like: bytes) -> bytes:
    """Return the object `data` marked as of the calling convention of `like`.

    Linkers refuse objects of different conventions, and a RISC-V object names its own in its header's flags. The object
    passes no floating-point numbers, so any convention is right.
    """
    fields = list(_HEADER.unpack_from(data))
    fields[_FLAGS] = _HEADER.unpack_from(like)[_FLAGS]
    return _HEADER.pack(*fields) + data[_HEADER.size :]


def elf_kind(data: bytes) -> int | None:
    """`RELOCATABLE`, `SHARED` or another kind; None when `data` is no 64-bit little-endian ELF file."""
    if len(data) < _HEADER.size or data[:6] != b"\x7fELF\2\1":
        return None
    return int(_HEADER.unpack_from(data)[1])


def elf_end(data: bytes) -> int:
    """Where the last of an ELF file's parts ends. Raises ArtifactError as `read_section` does."""
    header, sections = _sections(data)
    ends = [s[_OFFSET] + s[_SIZE] for s in sections if s[_TYPE] != _NOBITS]
    tables = [header[6] + len(sections) * _SECTION.size, header[5] + header[10] * _PROGRAM_HEADER]
    return max(*ends, *tables)


def _sections(data: bytes | memoryview) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    if len(data) < _HEADER.size or data[:4] != b"\x7fELF":
        raise ArtifactError("the file is no ELF file")
    if data[4] != 2 or data[5] != 1:
        raise ArtifactError("the file is not a 64-bit little-endian ELF file; only those can be used here")
    header = _HEADER.unpack_from(data)
    table, entry_size, count, names_at = header[6], header[11], header[12], header[13]
    if entry_size != _SECTION.size or table + count * entry_size > len(data) or names_at >= count:
        raise ArtifactError("the file is cut short or damaged: its section table lies outside of it")
    return header, [_SECTION.unpack_from(data, table + i * entry_size) for i in range(count)]


def _content(data: memoryview, section: tuple[int, ...]) -> memoryview:
    offset, size = section[_OFFSET], section[_SIZE]
    if section[_TYPE] == _NOBITS:
        return memoryview(b"")
    if offset + size > len(data):
        raise ArtifactError("the file is cut short or damaged: a section lies outside of it")
    return data[offset : offset + size]


def _moved(section: tuple[int, ...], offset: int, size: int) -> tuple[int, ...]:
    return (*section[:_OFFSET], offset, size, *section[_SIZE + 1 :])
