"""Link object files for x86-64 in this process's memory, without LLVM.

Objects that LLVM makes for kernels and for the runtime's native part need little: sections of code, constants and
variables, and ten kinds of relocations. For others `link` raises `UnknownObject`; then MCJIT links them (see `loader`).
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from compiler.errors import ArtifactError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_X86_64 = 62
# Kinds and flags of sections.
_PROGBITS, _SYMBOLS, _WITH_ADDENDS, _NOBITS, _WITHOUT_ADDENDS, _UNWINDING = 1, 2, 4, 8, 9, 0x70000001
_WRITABLE, _ALLOCATED, _EXECUTABLE, _THREAD_LOCAL, _COMPRESSED = 1, 2, 4, 0x400, 0x800
# Where symbols are, and what they are.
_ABSOLUTE, _FIRST_RESERVED = 0xFFF1, 0xFF00
_LOCAL, _WEAK = 0, 2
_THREAD_LOCAL_SYMBOL, _CHOSEN_WHEN_LOADED = 6, 10
# Kinds of relocations. Those of the first line ask for 64 bits, those of the second for 32.
_64, _PC64, _GOTOFF64, _GOT64, _GOTPC64, _PLTOFF64 = 1, 24, 25, 27, 29, 31
_PC32, _PLT32, _GOTPCREL, _GOTPC32, _GOTPCRELX, _REX_GOTPCRELX = 2, 4, 9, 26, 41, 42
_BY_TABLE = frozenset({_GOT64, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX})
_CALLS = frozenset({_PC32, _PLT32})
_JUMP = struct.Struct("<6sQ2x")  # jmp [rip]; the address
_JUMP_CODE = b"\xff\x25\0\0\0\0"
TABLE = "_GLOBAL_OFFSET_TABLE_"


class UnknownObject(Exception):
    """An object has something that is not written here; LLVM may link it."""


class LinkedCode:
    """Objects in memory, mapped until this is collected."""

    def __init__(self, start: int, size: int, symbols: dict[str, int], *, for_good: bool) -> None:
        self._symbols = symbols
        if not for_good:
            weakref.finalize(self, _libc().munmap, start, size).atexit = False

    def address(self, symbol: str) -> int:
        """The address of a symbol that an object defines; 0 for others."""
        return self._symbols.get(symbol, 0)


@dataclass(slots=True)
class _Part:
    """A section that is loaded: which object's, and its place in the whole."""

    kind: int
    flags: int
    align: int
    data: memoryview
    size: int
    at: int = 0


@dataclass(slots=True)
class _Object:
    data: memoryview
    parts: dict[int, _Part]
    symbols: list[tuple[str, int, int, int, int]]  # name, binding, kind, section, value
    relocations: list[tuple[int, memoryview]]  # the section that they change, and they
    names: dict[str, int] = field(default_factory=dict)


def link(objects: Sequence[bytes], resolve: Callable[[str], int], *, for_good: bool = False) -> LinkedCode:
    """Map the objects and link them to each other.

    `resolve` gives the addresses of names that none of them defines. `for_good` keeps them mapped until the process
    ends, for code that threads run. Raises UnknownObject for objects that need LLVM's linker, ArtifactError for damaged
    ones.
    """
    try:
        read = [_read(data) for data in objects]
        whole = _Whole(read, resolve)
        return whole.mapped(for_good=for_good)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ArtifactError(f"the object is damaged: {error}") from None


def _read(data: bytes) -> _Object:
    view = memoryview(data)
    fields = _HEADER.unpack_from(view)
    if fields[2] != _X86_64:
        raise UnknownObject("another machine's")
    sections = [_SECTION.unpack_from(view, fields[6] + i * _SECTION.size) for i in range(fields[12])]
    parts: dict[int, _Part] = {}
    tables: list[tuple[int, memoryview]] = []
    symbols: list[tuple[str, int, int, int, int]] = []
    for number, section in enumerate(sections):
        _, kind, flags, _, _, size, link_to, changed, align, _ = section
        if kind == _SYMBOLS:
            names = _content(view, sections[link_to])
            symbols = [_symbol(entry, names) for entry in _SYMBOL.iter_unpack(_content(view, section))]
        elif kind == _WITH_ADDENDS:
            tables.append((changed, _content(view, section)))
        elif kind == _WITHOUT_ADDENDS:
            raise UnknownObject("relocations without addends")
        elif flags & _ALLOCATED and kind != _UNWINDING and size:
            if kind not in (_PROGBITS, _NOBITS) or flags & (_THREAD_LOCAL | _COMPRESSED):
                raise UnknownObject(f"a section of kind {kind}, flags {flags:#x}")
            content = view[:0] if kind == _NOBITS else _content(view, section)
            if align > mmap.PAGESIZE or size > 1 << 30:
                raise UnknownObject("a section too large")
            parts[number] = _Part(kind, flags, max(1, align), content, size)
    return _Object(view, parts, symbols, [(changed, table) for changed, table in tables if changed in parts])


def _content(view: memoryview, section: tuple[int, ...]) -> memoryview:
    offset, size = section[4], section[5]
    if offset + size > len(view):
        raise ArtifactError("the object is damaged: a section lies outside the file")
    return view[offset : offset + size]


def _symbol(entry: tuple[int, ...], names: memoryview) -> tuple[str, int, int, int, int]:
    name_at, info, _, section, value, _ = entry
    name = bytes(names[name_at : name_at + 1024]).split(b"\0", 1)[0].decode("utf-8")
    kind = info & 15
    if kind in (_THREAD_LOCAL_SYMBOL, _CHOSEN_WHEN_LOADED):
        raise UnknownObject(f"the kind of the symbol {name}")
    return name, info >> 4, kind, section, value


class _Whole:
    """All objects to be loaded: code first, then constants, then variables with the table of addresses."""

    def __init__(self, objects: Sequence[_Object], resolve: Callable[[str], int]) -> None:
        self._objects = objects
        self._resolve = resolve
        self._jumps: dict[str, int] = {}  # number of each jump
        self._table: dict[str | int, int] = {}  # number of each address in the table, by name, or by symbol's address
        self._outside = self._names_outside()
        self._place()

    def _names_outside(self) -> frozenset[str]:
        defined = {name for made in self._objects for name, binding, _, section, _ in made.symbols
                   if section and binding != _LOCAL}  # fmt: skip
        asked = {name for made in self._objects for name, _, _, section, _ in made.symbols if name and not section}
        return frozenset(asked - defined - {TABLE})

    def _place(self) -> None:
        """Give each section a place. Sections of equal rights lie together, each group from a page on."""
        groups = (_EXECUTABLE, 0, _WRITABLE)
        parts = [part for made in self._objects for part in made.parts.values()]
        if any(part.flags & _EXECUTABLE and part.flags & _WRITABLE for part in parts):
            raise UnknownObject("code that can be written")
        entries = sum(len(table) // _RELOCATION.size for made in self._objects for _, table in made.relocations)
        at, self._ends = 0, list[int]()
        for group in groups:
            for part in parts:
                if part.flags & (_EXECUTABLE | _WRITABLE) == group:
                    part.at = -(-at // part.align) * part.align
                    at = part.at + part.size
            if group == _EXECUTABLE:
                self._jumps_at = at = -(-at // 16) * 16
                at += _JUMP.size * len(self._outside)
            elif group == 0:
                self._table_at = at = -(-at // 8) * 8
                at += 8 * entries
            at = -(-at // mmap.PAGESIZE) * mmap.PAGESIZE
            self._ends.append(at)

    def mapped(self, *, for_good: bool) -> LinkedCode:
        size = self._ends[-1] or mmap.PAGESIZE
        libc = _libc()
        private_anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, private_anonymous, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            raise ArtifactError(f"there is no memory for {size} bytes of code")
        try:
            content = bytearray(size)
            symbols = self._fill(start, memoryview(content))
            ctypes.memmove(start, bytes(content), size)
            first = 0
            rights = (mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ)
            for end, right in zip(self._ends, rights):
                if end > first and libc.mprotect(start + first, end - first, right):
                    raise ArtifactError("the system does not let this process run code that it loads")
                first = end
        except BaseException:
            libc.munmap(start, size)
            raise
        return LinkedCode(start, size, symbols, for_good=for_good)

    def _fill(self, start: int, memory: memoryview) -> dict[str, int]:
        for made in self._objects:
            for part in made.parts.values():
                memory[part.at : part.at + len(part.data)] = part.data
        found = self._symbols(start)
        for number, name in enumerate(sorted(self._outside)):
            self._jumps[name] = number
            _JUMP.pack_into(memory, self._jumps_at + number * _JUMP.size, _JUMP_CODE, found[name])
        for made in self._objects:
            for changed, table in made.relocations:
                part = made.parts[changed]
                for offset, kind, symbol, addend in _RELOCATION.iter_unpack(table):
                    if offset + 4 > part.size:
                        raise ArtifactError("the object is damaged: a relocation lies outside of its section")
                    self._relocate(memory, start, made, part.at + offset, kind, made.symbols[symbol], addend, found)
        return found

    def _symbols(self, start: int) -> dict[str, int]:
        """Look up the addresses of names.
        An object's own definitions come before weak ones, these before others'."""
        found = {name: self._resolve(name) for name in self._outside}
        for weak in (True, False):
            for made in self._objects:
                for name, binding, _, section, value in made.symbols:
                    if section and binding != _LOCAL and (binding == _WEAK) is weak:
                        address = _address(made, section, value, start)
                        if not weak or name not in found:
                            found[name] = address
        return found

    def _relocate(
        self, memory: memoryview, start: int, made: _Object, at: int, kind: int, symbol: tuple[str, int, int, int, int],
        addend: int, found: dict[str, int],
    ) -> None:  # fmt: skip
        name, binding, _, section, value = symbol
        table, place = start + self._table_at, start + at
        if binding == _LOCAL or not name:
            target = _address(made, section, value, start) if section else 0
        elif name == TABLE and not section:
            target = table
        else:
            target = found[name]
        if kind in _CALLS and name in self._jumps and not section:
            target = start + self._jumps_at + self._jumps[name] * _JUMP.size
        if kind in _BY_TABLE:
            number = self._table.setdefault(target, len(self._table))
            struct.pack_into("<Q", memory, self._table_at + 8 * number, target)
            target = table + 8 * number
        match kind:
            case 0:
                return
            case _ if kind == _64:
                _write(memory, at, "<Q", (target + addend) % (1 << 64))
            case _ if kind == _PC64:
                _write(memory, at, "<q", target + addend - place)
            case _ if kind in (_GOTOFF64, _GOT64, _PLTOFF64):
                _write(memory, at, "<q", target + addend - table)
            case _ if kind == _GOTPC64:
                _write(memory, at, "<q", table + addend - place)
            case _ if kind == _GOTPC32:
                _write(memory, at, "<i", table + addend - place)
            case _ if kind in (_PC32, _PLT32, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
                _write(memory, at, "<i", target + addend - place)
            case _:
                raise UnknownObject(f"relocation {kind}")


def _write(memory: memoryview, at: int, form: str, value: int) -> None:
    try:
        struct.pack_into(form, memory, at, value)
    except struct.error:
        raise UnknownObject("an address out of reach") from None


def _address(made: _Object, section: int, value: int, start: int) -> int:
    if section == _ABSOLUTE:
        return value
    part = made.parts.get(section)
    if section >= _FIRST_RESERVED or (part is None and value):
        raise UnknownObject(f"a symbol in section {section:#x}")
    return start + (0 if part is None else part.at) + value


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
