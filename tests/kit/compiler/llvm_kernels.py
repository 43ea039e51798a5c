"""Artifacts built from a few lines of LLVM IR, to test the runtime without a code generator."""

from __future__ import annotations

import llvmlite.binding as llvm

from compiler.artifact import ArgSpec, Artifact, EntryPoint
from compiler.runtime.core import native
from compiler.target.target import Target

ADD = """
define void @add(ptr %a, ptr %b, ptr %c) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %pa
  %y = load float, ptr %pb
  %z = fadd float %x, %y
  store float %z, ptr %pc
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %done
done:
  ret void
}
define i32 @add_packed(ptr %args) {
  %p1 = getelementptr ptr, ptr %args, i64 1
  %p2 = getelementptr ptr, ptr %args, i64 2
  %a = load ptr, ptr %args
  %b = load ptr, ptr %p1
  %c = load ptr, ptr %p2
  call void @add(ptr %a, ptr %b, ptr %c)
  ret i32 0
}
"""
ADD_ENTRY = EntryPoint(
    "add", "add", (ArgSpec("A", "float32", (16,)), ArgSpec("B", "float32", (16,)), ArgSpec("C", "float32", (16,))), (2,)
)

# counts its calls in its only argument
COUNT = """
define void @count(ptr %n) {
  %x = load i64, ptr %n
  %y = add i64 %x, 1
  store i64 %y, ptr %n
  ret void
}
define i32 @count_packed(ptr %args) {
  %n = load ptr, ptr %args
  call void @count(ptr %n)
  ret i32 0
}
"""
COUNT_ENTRY = EntryPoint("count", "count", (ArgSpec("n", "int64", (1,)),), (0,))

# out[i] = i * scale for 4096 tasks of one parallel loop; `nest` > 0 makes each task start a loop of its own
PARALLEL = """
declare i32 @tunefarm_parallel_for(ptr, ptr, i64)
define internal void @inner(i64 %i, ptr %ctx) {
  %old = atomicrmw add ptr %ctx, i64 1 monotonic
  ret void
}
define internal void @task(i64 %i, ptr %ctx) {
  %out = load ptr, ptr %ctx
  %slot = getelementptr i64, ptr %out, i64 %i
  %nest.p = getelementptr i64, ptr %ctx, i64 1
  %nest = load i64, ptr %nest.p
  %more = icmp sgt i64 %nest, 0
  br i1 %more, label %nested, label %plain
nested:
  %rc = call i32 @tunefarm_parallel_for(ptr @inner, ptr %slot, i64 %nest)
  ret void
plain:
  %old = atomicrmw add ptr %slot, i64 %i monotonic
  ret void
}
define void @par(ptr %out, i64 %nest) {
  %ctx = alloca [2 x i64]
  store ptr %out, ptr %ctx
  %nest.p = getelementptr i64, ptr %ctx, i64 1
  store i64 %nest, ptr %nest.p
  %rc = call i32 @tunefarm_parallel_for(ptr @task, ptr %ctx, i64 4096)
  ret void
}
define i32 @par_packed(ptr %args) {
  %out = load ptr, ptr %args
  %p = getelementptr i64, ptr %args, i64 1
  %nest = load i64, ptr %p
  call void @par(ptr %out, i64 %nest)
  ret i32 0
}
"""
PARALLEL_ENTRY = EntryPoint("par", "par", (ArgSpec("out", "int64", (4096,)), ArgSpec("nest", "int64", None)), (0,))


def compile_ir(text: str) -> bytes:
    """An object file for this machine."""
    machine = native.target_machine(opt=2)
    module = llvm.parse_assembly(text)
    module.verify()
    return bytes(machine.emit_object(module))


def artifact(text: str, *entries: EntryPoint, features: tuple[str, ...] = ()) -> Artifact:
    """An artifact for this machine from LLVM IR that follows the calling convention."""
    return Artifact(
        target=str(Target("llvm").resolved()),
        cpu_features=features,
        entries=entries,
        blobs={"object": compile_ir(text), "ll": text.encode()},
        meta={"llvm": "test"},
    )
