"""Objects linked in memory by tunefarm itself, and those that it leaves to LLVM."""

from __future__ import annotations

import ctypes
import platform
import struct

import llvmlite.binding as llvm
import pytest

from compiler.errors import ArtifactError
from compiler.runtime.core import native
from compiler.runtime.core.loader import load_object
from compiler.runtime.core.object_linker import UnknownObject, link

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="objects for x86-64 are linked")

NAMES = """
@table = constant [4 x i32] [i32 2, i32 3, i32 5, i32 7]
@count = global i32 40
@zeros = internal global [1000 x i32] zeroinitializer
@pointer = global ptr @count
@shared = external global i32
declare double @cos(double)
define double @wave(double %x) {
  %y = call double @cos(double %x)
  ret double %y
}
define i32 @next() {
  %old = load i32, ptr @count
  %new = add i32 %old, 1
  store i32 %new, ptr @count
  ret i32 %new
}
define i32 @entry(i32 %i) {
  %p = getelementptr i32, ptr @table, i32 %i
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @through() {
  %p = load ptr, ptr @pointer
  %v = load i32, ptr %p
  %q = getelementptr [1000 x i32], ptr @zeros, i32 0, i32 999
  %z = load i32, ptr %q
  %s = load i32, ptr @shared
  %a = add i32 %v, %z
  %b = add i32 %a, %s
  ret i32 %b
}
"""
OTHER = """
@shared = global i32 1000
define weak i32 @next() { ret i32 -1 }
"""


def compiled(text: str, codemodel: str = "small") -> bytes:
    native.target_machine()  # initialises LLVM
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel=codemodel)
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


def cosine(name: str) -> int:
    found = {"cos": ctypes.CDLL("libm.so.6").cos}
    return ctypes.cast(found[name], ctypes.c_void_p).value or 0


def called(address: int, result: type, *args: object) -> object:
    kinds = [ctypes.c_double if isinstance(arg, float) else ctypes.c_int32 for arg in args]
    return ctypes.CFUNCTYPE(result, *kinds)(address)(*args)  # type: ignore[arg-type]


@pytest.mark.parametrize("codemodel", ["small", "large"])
def test_objects_are_linked_to_each_other_and_to_what_is_there(codemodel: str) -> None:
    code = link([compiled(OTHER, codemodel), compiled(NAMES, codemodel)], cosine)
    assert called(code.address("wave"), ctypes.c_double, 0.0) == 1.0
    assert [called(code.address("entry"), ctypes.c_int32, i) for i in range(4)] == [2, 3, 5, 7]
    assert called(code.address("through"), ctypes.c_int32) == 1040
    assert called(code.address("next"), ctypes.c_int32) == 41  # the other object's is weak
    assert called(code.address("through"), ctypes.c_int32) == 1041
    assert code.address("nobody's") == 0


def test_code_cannot_be_written_and_variables_cannot_be_run() -> None:
    code = link([compiled(OTHER), compiled(NAMES)], cosine)
    assert rights(code.address("entry")) == "r-xp"
    assert rights(code.address("table")) == "r--p"
    assert rights(code.address("count")) == "rw-p"


def rights(address: int) -> str:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return line.split()[1]
    raise AssertionError(f"{address:#x} is not mapped")


def test_an_object_with_thread_local_variables_is_left_to_llvm() -> None:
    text = "@mine = thread_local global i32 7\ndefine ptr @where() { ret ptr @mine }\ndefine i32 @nine() { ret i32 9 }"
    with pytest.raises(UnknownObject):
        link([compiled(text)], lambda name: 0)


def test_what_is_left_to_llvm_runs() -> None:
    text = "@common = common global i32 0\ndefine i32 @nine() { store i32 9, ptr @common  ret i32 9 }"
    data = compiled(text)
    with pytest.raises(UnknownObject):
        link([data], lambda name: 0)
    assert called(load_object(data, ["nine"]).address("nine"), ctypes.c_int32) == 9


def test_a_damaged_object_is_refused() -> None:
    data = compiled(NAMES)
    table = struct.unpack_from("<Q", data, 40)[0]
    count = struct.unpack_from("<H", data, 60)[0]
    refused = 0
    for number in range(count):
        at = table + 64 * number
        if struct.unpack_from("<I", data, at + 4)[0] == 4:  # a table of relocations
            offset = struct.unpack_from("<Q", data, at + 24)[0]
            broken = bytearray(data)
            struct.pack_into("<Q", broken, offset, 1 << 40)
            if struct.unpack_from("<I", data, table + 64 * struct.unpack_from("<I", data, at + 44)[0] + 4)[0] == 1:
                refused += 1
                with pytest.raises(ArtifactError, match="outside of its section"):
                    link([bytes(broken), compiled(OTHER)], cosine)
    assert refused
    for size in range(64, len(data), 97):
        with pytest.raises((ArtifactError, UnknownObject)):
            link([data[:size], compiled(OTHER)], cosine)
