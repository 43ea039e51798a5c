"""Just enough ELF to look before loading.

Is this an object for this CPU, what does it define and need?

The JIT linker ends the process when a symbol cannot be resolved, so this is checked first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from compiler.errors import ArtifactError

_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 40: "arm", 3: "i386"}
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE = 1
_SYMBOL_TABLE = 2
_STRING_TABLE = 3
_WEAK = 2


@dataclass(frozen=True, slots=True)
class ObjectSymbols:
    """The target of an object file and the global symbols it defines and needs.
    A `weak` symbol gives way to another object's."""

    machine: str
    defined: frozenset[str]
    undefined: frozenset[str]
    weak: frozenset[str] = frozenset()


def elf_machine(head: bytes) -> str | None:
    """The machine a little-endian ELF file is for, from its first 20 bytes; None for other files."""
    if len(head) < 20 or head[:4] != b"\x7fELF" or head[5] != 1:
        return None
    number = int.from_bytes(head[18:20], "little")
    return _MACHINES.get(number, f"machine {number}")


def read_object(data: bytes) -> ObjectSymbols:
    """Read a relocatable 64-bit little-endian ELF file. Raises ArtifactError on anything else."""
    if len(data) < _HEADER.size or data[:4] != b"\x7fELF":
        raise ArtifactError("the object is no ELF file")
    if data[4] != 2 or data[5] != 1:
        raise ArtifactError("the object is not a 64-bit little-endian ELF file; only those can be loaded here")
    fields = _HEADER.unpack_from(data)
    kind, machine, table, entry_size, count = fields[1], fields[2], fields[6], fields[11], fields[12]
    if kind != _RELOCATABLE:
        raise ArtifactError("the object is an ELF file, but not a relocatable one")
    if entry_size != _SECTION.size or table + count * entry_size > len(data):
        raise ArtifactError("the object is damaged: its section table lies outside the file")
    sections = [_SECTION.unpack_from(data, table + i * entry_size) for i in range(count)]
    defined: set[str] = set()
    undefined: set[str] = set()
    weak: set[str] = set()
    for section in sections:
        if section[1] == _SYMBOL_TABLE:
            _read_symbols(data, sections, section, defined, undefined, weak)
    name = _MACHINES.get(machine, f"machine {machine}")
    return ObjectSymbols(name, frozenset(defined), frozenset(undefined), frozenset(weak))


def _read_symbols(
    data: bytes, sections: list[tuple[int, ...]], table: tuple[int, ...], defined: set[str], undefined: set[str],
    weak: set[str],
) -> None:  # fmt: skip
    offset, size, link = table[4], table[5], table[6]
    if offset + size > len(data) or link >= len(sections) or sections[link][1] != _STRING_TABLE:
        raise ArtifactError("the object is damaged: its symbol table lies outside the file")
    text_offset, text_size = sections[link][4], sections[link][5]
    text = data[text_offset : text_offset + text_size]
    for at in range(offset, offset + size - _SYMBOL.size + 1, _SYMBOL.size):
        name_at, info, _, section, _, _ = _SYMBOL.unpack_from(data, at)
        bind = info >> 4
        if bind == 0 or name_at == 0:
            continue
        end = text.find(b"\0", name_at)
        if end < 0:
            raise ArtifactError("the object is damaged: a symbol's name lies outside the file")
        name = text[name_at:end].decode("utf-8", "replace")
        if section != 0:
            defined.add(name)
            if bind == _WEAK:
                weak.add(name)
        elif bind != _WEAK:
            undefined.add(name)
