"""Rename functions in object files.

Kernels compiled from one source for several sizes can then be linked together.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from compiler.artifact import LINKED, Artifact
from compiler.errors import ArtifactError
from compiler.runtime.files.elf import read_object

_SYMBOLS = 2  # type of the section that is a table of symbols
_SYMBOL, _SECTION = struct.Struct("<IBBHQQ"), struct.Struct("<IIQQQQIIQQ")
_HIDDEN = 2


def under_name(artifact: Artifact, name: str) -> Artifact:
    """An artifact of one entry in C, as a function called `name`.

    Its objects' other definitions become private. So two of them may be linked although both were compiled from one
    source. Raises ArtifactError for objects that are not ELF of 64 bits.
    """
    [entry] = artifact.entries
    objects = [artifact.blobs["object"], *artifact.linked]
    names = {symbol: f"{name}.{symbol}" for code in objects for symbol in read_object(code).defined}
    names |= {entry.symbol: name, f"{entry.symbol}_packed": f"{name}_packed"}
    first, *more = (renamed(code, names, {name, f"{name}_packed"}) for code in objects)
    blobs = {**artifact.blobs, "object": first, **{f"{LINKED}{at}": code for at, code in enumerate(more)}}
    made = replace(entry, name=name, symbol=name)
    return Artifact(artifact.target, artifact.cpu_features, (made,), blobs, artifact.meta)


def renamed(code: bytes, names: Mapping[str, str], shown: Collection[str]) -> bytes:
    """An object file with other names, where it defines them and where it uses them.

    Of the new ones only those in `shown` are seen outside of what it is linked to. Raises ArtifactError for what is no
    object file of 64 bits.
    """
    if not read_object(code).defined:
        return code
    table = _Table.of(code)
    made, texts = bytearray(code), bytearray(table.texts)
    for at in range(table.begin, table.begin + table.size, _SYMBOL.size):
        text, info, other, *_ = _SYMBOL.unpack_from(code, at)
        is_local = info >> 4 == 0
        new = None if is_local else names.get(table.name(text))
        if new is None:
            continue
        struct.pack_into("<IBB", made, at, len(texts), info, other if new in shown else other & ~3 | _HIDDEN)
        texts += new.encode() + b"\0"
    struct.pack_into("<QQ", made, table.header + 24, len(made), len(texts))  # the names lie at the end now
    return bytes(made + texts)


@dataclass(frozen=True)
class _Table:
    """Where the symbols of an object lie, the bytes of their names, and where the header of these lies."""

    begin: int
    size: int
    texts: bytes
    header: int

    @staticmethod
    def of(code: bytes) -> _Table:
        """The table of a sound object that has one."""
        [sections] = struct.unpack_from("<Q", code, 0x28)
        [count] = struct.unpack_from("<H", code, 0x3C)
        for number in range(count):
            _, kind, _, _, begin, size, link, *_ = _SECTION.unpack_from(code, sections + number * _SECTION.size)
            if kind == _SYMBOLS:
                header = sections + link * _SECTION.size
                _, _, _, _, texts, length, *_ = _SECTION.unpack_from(code, header)
                return _Table(begin, size, code[texts : texts + length], header)
        raise ArtifactError("the object has no table of symbols")

    def name(self, at: int) -> str:
        return self.texts[at : self.texts.index(b"\0", at)].decode("utf-8", "replace")
