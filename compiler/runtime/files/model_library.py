"""Whole models as shared libraries, for any program.

Kernels, the runtime's native part, and the model's file.

The model's file is a section of the library that is mapped with it, so constants are read when first used. When the
library is loaded, it fills in the table of the constants' addresses. `load_module` finds the file in the section.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from compiler.artifact import CONSTANTS, Artifact
from compiler.errors import ArtifactError
from compiler.runtime.core import native
from compiler.runtime.files.elf_section import find_section, with_flags_of
from compiler.runtime.files.linker import create_shared
from compiler.target.target import Target

SECTION = ".tunefarm_model"
FILE = "tunefarm_model_file"  # the symbol of the section's beginning
START = "tunefarm_model_start"  # the function that fills in the table
_ALIGNMENT = 4096
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_ENTRY = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MACHINE_AT, _FLAGS_AT = 2, 7  # fields of an ELF header


def export_model(
    path: Path, code: Artifact, chunks: Iterable[bytes | memoryview], size: int, arrays: Mapping[int, int],
    fcompile: Callable[..., Any] | None = None, addons: Iterable[str] = (), workspace_dir: str | None = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Link a model's code and its file (`chunks`, of `size` bytes) to a library.

    `arrays` are places in the file. Raises LinkError when linking fails, ArtifactError for code that cannot be linked.
    """
    objects = code.blobs.get("object")
    if objects is None:
        raise ArtifactError("the model holds no object code to write")
    triple = Target(code.target).triple
    with tempfile.TemporaryDirectory(prefix="tunefarm-") as scratch:
        folder = Path(workspace_dir) if workspace_dir is not None else Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        small = {"lib0.o": objects, "devc.o": with_flags_of(native.compiled(triple), objects)}
        small |= {f"linked{index}.o": more for index, more in enumerate(code.linked)}
        if code.constants:
            small["start.o"] = with_flags_of(start_object(triple, code.constants, arrays), objects)
        for name, data in small.items():
            (folder / name).write_bytes(data)
        with (folder / "model.o").open("wb") as file:
            file.writelines(file_object(objects, chunks, size))
        inputs = [*(str(folder / name) for name in (*small, "model.o")), *map(str, addons)]
        return (fcompile or create_shared)(str(path), inputs, **kwargs)


def start_object(triple: str | None, count: int, arrays: Mapping[int, int]) -> bytes:
    """Return code that fills in the table of `count` constants when the library is loaded.
    `arrays` has offsets by number."""
    import llvmlite.binding as llvm

    offsets = ", ".join(f"i64 {arrays.get(number, -1)}" for number in range(count))
    text = f"""
@{CONSTANTS} = external hidden global [{count} x ptr]
@{FILE} = external hidden global i8
@offsets = private constant [{count} x i64] [{offsets}]
%entry = type {{ i32, ptr, ptr }}
@llvm.global_ctors = appending global [1 x %entry] [%entry {{ i32 100, ptr @{START}, ptr null }}]
define hidden void @{START}() nounwind {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %after ]
  %from = getelementptr i64, ptr @offsets, i64 %i
  %offset = load i64, ptr %from
  %there = icmp sge i64 %offset, 0
  br i1 %there, label %fill, label %after
fill:
  %place = getelementptr ptr, ptr @{CONSTANTS}, i64 %i
  %address = getelementptr i8, ptr @{FILE}, i64 %offset
  store ptr %address, ptr %place
  br label %after
after:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {count}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    native.target_machine()  # initialises LLVM
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic")
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


def file_object(beside: bytes, chunks: Iterable[bytes | memoryview], size: int) -> Iterable[bytes | memoryview]:
    """Yield an object file that holds `chunks` in the section.
    It is for the machine of the object `beside`."""
    like = _HEADER.unpack_from(beside)
    names = b"\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack\0" + SECTION.encode("ascii") + b"\0"
    strings = b"\0" + FILE.encode("ascii") + b"\0"
    hidden, data, everywhere = 2, 1, 1 << 4
    symbols = bytes(_SYMBOL.size) + _SYMBOL.pack(1, everywhere | data, hidden, 1, 0, size)
    start = _ALIGNMENT
    padding = -(start + size) % 8
    symbols_at = start + size + padding
    strings_at = symbols_at + len(symbols)
    names_at = strings_at + len(strings)
    table_at = names_at + len(names) + -(names_at + len(names)) % 8
    allocated = 2
    table = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (names.index(SECTION.encode("ascii")), 1, allocated, 0, start, size, 0, 0, _ALIGNMENT, 0),
        (names.index(b".symtab"), 2, 0, 0, symbols_at, len(symbols), 3, 1, 8, _SYMBOL.size),
        (names.index(b".strtab"), 3, 0, 0, strings_at, len(strings), 0, 0, 1, 0),
        (names.index(b".shstrtab"), 3, 0, 0, names_at, len(names), 0, 0, 1, 0),
        (names.index(b".note"), 1, 0, 0, names_at, 0, 0, 0, 1, 0),  # no stack of this object's is executable
    ]
    relocatable = 1
    fields = (like[0], relocatable, like[_MACHINE_AT], 1, 0, 0, table_at, like[_FLAGS_AT], _HEADER.size, 0, 0)
    head = _HEADER.pack(*fields, _SECTION_ENTRY.size, len(table), 4)
    yield head + bytes(start - len(head))
    yield from chunks
    yield bytes(padding) + symbols + strings + names + bytes(table_at - names_at - len(names))
    yield b"".join(_SECTION_ENTRY.pack(*entry) for entry in table)


def model_in(path: Path) -> memoryview | None:
    """Return the model's file in a shared library as a view of its pages; None without one.

    Raises ArtifactError for a file that is no library, or is cut short.
    """
    with path.open("rb") as file:
        try:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:  # an empty file cannot be mapped
            return None
    return find_section(data, SECTION)
