"""Kernels built for other machines, run under qemu's user-mode emulation.

The kernel's object is linked, without a C library, to a few lines of LLVM IR that read the arguments from standard
input, call the kernel and write them back. What is needed: qemu-user and ld.lld (Debian: `qemu-user lld`).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.artifact import Artifact
from compiler.codegen.llvm.llvm import compile_text
from compiler.target.target import Target

_COMMON = """
@slots = internal global [32 x i64] zeroinitializer
@arena = internal global [4194304 x i8] zeroinitializer, align 64
@used = internal global i64 0

define i32 @tunefarm_parallel_for(ptr %f, ptr %ctx, i64 %n) {
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void %f(i64 %i, ptr %ctx)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
define ptr @tunefarm_alloc(i64 %bytes) {
  %old = load i64, ptr @used
  %up = add i64 %bytes, 63
  %size = and i64 %up, -64
  %new = add i64 %old, %size
  store i64 %new, ptr @used
  %p = getelementptr i8, ptr @arena, i64 %old
  ret ptr %p
}
define void @tunefarm_free(ptr %p) {
  ret void
}
define internal void @transfer(WORD %call, WORD %file, ptr %start, WORD %bytes) {
entry:
  br label %loop
loop:
  %done = phi WORD [ 0, %entry ], [ %now, %loop ]
  %left = sub WORD %bytes, %done
  %p = getelementptr i8, ptr %start, WORD %done
  %at = ptrtoint ptr %p to WORD
  %got = call WORD @syscall(WORD %call, WORD %file, WORD %at, WORD %left)
  %now = add WORD %done, %got
  %stop = icmp sle WORD %got, 0
  %full = icmp uge WORD %now, %bytes
  %end = or i1 %stop, %full
  br i1 %end, label %out, label %loop
out:
  ret void
}
declare WORD @syscall(WORD, WORD, WORD, WORD)
"""
# an object of its own: LLVM would conclude from the body that it never returns
_SYSCALL = """
define WORD @syscall(WORD %n, WORD %a, WORD %b, WORD %c) nounwind prologue [COUNT x i32] [CODE] {
  unreachable
}
define void @__aeabi_unwind_cpp_pr0() nounwind {
  ret void
}
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """How to make and run a program for a machine."""

    target: Target
    emulator: str
    word: str
    syscall: tuple[int, ...]  # machine code of a function of the call's number and three operands
    read: int
    write: int
    exit: int

    @property
    def missing(self) -> str | None:
        """The program that is needed and not installed."""
        return next((name for name in (self.emulator, "ld.lld") if shutil.which(name) is None), None)


# LLVM's wheel has no assembler, so these are the words of: moves to the kernel's registers, the trap, return
AARCH64 = Machine(
    Target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon"), "qemu-aarch64", "i64",
    (0xAA0003E8, 0xAA0103E0, 0xAA0203E1, 0xAA0303E2, 0xD4000001, 0xD65F03C0), 63, 64, 93,
)  # fmt: skip
RISCV64 = Machine(
    Target("llvm -mtriple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+c -mabi=lp64d"), "qemu-riscv64", "i64",
    (0x00050893, 0x00058513, 0x00060593, 0x00068613, 0x00000073, 0x00008067), 63, 64, 93,
)  # fmt: skip
ARMV7 = Machine(
    Target("llvm -mtriple=armv7l-linux-gnueabihf -mfloat-abi=hard -mattr=+neon,+vfp3"), "qemu-arm", "i32",
    (0xE92D4080, 0xE1A07000, 0xE1A00001, 0xE1A01002, 0xE1A02003, 0xEF000000, 0xE8BD8080), 3, 4, 1,
)  # fmt: skip
MACHINES = {"aarch64": AARCH64, "riscv64": RISCV64, "armv7": ARMV7}


def run(
    machine: Machine, artifact: Artifact, arrays: list[np.ndarray], folder: Path, cpu: str = "",
    beside: Mapping[str, bytes] | None = None, first: str = "",
) -> None:  # fmt: skip
    """Run the artifact's only entry point on the arrays, in place. `beside` are more objects by name; `first` is a
    function of theirs that is called before."""
    start = _start(machine, artifact.entries[0].symbol, arrays, first)
    more = beside or {}
    for name, code in more.items():
        (folder / name).write_bytes(code)
    for name, text in (("start.o", start), ("syscall.o", _syscall(machine))):
        (folder / name).write_bytes(compile_text(text, machine.target))
    (folder / "kernel.o").write_bytes(artifact.blobs["object"])
    command = ["ld.lld", "-static", "-o", "program", "start.o", "syscall.o", "kernel.o", *more]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    emulate = [machine.emulator, *(["-cpu", cpu] if cpu else []), str(folder / "program")]
    given = b"".join(array.tobytes() for array in arrays)
    done = subprocess.run(emulate, input=given, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    assert len(done.stdout) == len(given)
    at = 0
    for array in arrays:
        array[...] = np.frombuffer(done.stdout, array.dtype, array.size, at).reshape(array.shape)
        at += array.nbytes


def _syscall(machine: Machine) -> str:
    code = ", ".join(f"i32 {number}" for number in machine.syscall)
    return _SYSCALL.replace("WORD", machine.word).replace("COUNT", str(len(machine.syscall))).replace("CODE", code)


def _start(machine: Machine, symbol: str, arrays: list[np.ndarray], first: str) -> str:
    word = machine.word
    common = _COMMON.replace("WORD", word)
    data, reads, writes, slots = [], [], [], []
    for index, array in enumerate(arrays):
        data.append(f"@a{index} = internal global [{array.nbytes} x i8] zeroinitializer, align 64")
        move = f"call void @transfer({word} {{}}, {word} {{}}, ptr @a{index}, {word} {array.nbytes})"
        reads.append(move.format(machine.read, 0))
        writes.append(move.format(machine.write, 1))
        slots += [
            f"%p{index} = getelementptr i64, ptr @slots, i64 {index}",
            f"%v{index} = ptrtoint ptr @a{index} to i64",
            f"store i64 %v{index}, ptr %p{index}",
        ]
    begin = [f"call void @{first}()"] if first else []
    body = "\n  ".join([*begin, *reads, *slots, f"%rc = call i32 @{symbol}_packed(ptr @slots)", *writes])
    result = "%code = sext i32 %rc to i64" if word == "i64" else "%code = add i32 %rc, 0"
    return "\n".join([
        *data, common, *([f"declare void @{first}()"] if first else []), f"declare i32 @{symbol}_packed(ptr)",
        f"define void @_start() {{\n  {body}\n  {result}",
        f"  call {word} @syscall({word} {machine.exit}, {word} %code, {word} 0, {word} 0)\n  unreachable\n}}",
    ])  # fmt: skip
