"""Small kernels as LLVM IR text, made into artifacts by the CPU calling convention."""

from functools import lru_cache
from string import Template

import llvmlite.binding as llvm

from compiler.artifact import ArgSpec, Artifact, EntryPoint
from compiler.target.target import Target

# A kernel over float32 vectors a and b: `body` runs in a loop over %i, or replaces the loop.
_LOOP = """
define void @$name(ptr %a, ptr %b) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %va = load float, ptr %pa
$body
  store float %r, ptr %pb
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, $n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
_PACKED = """
define i32 @${name}_packed(ptr %args) {
  %p0 = load ptr, ptr %args
  %s1 = getelementptr ptr, ptr %args, i64 1
  %p1 = load ptr, ptr %s1
  call void @$name(ptr %p0, ptr %p1)
  ret i32 0
}
"""
_SEGFAULT = """
define void @$name(ptr %a, ptr %b) {
  store volatile i32 1, ptr null
  ret void
}
"""
_FOREVER = """
@turn = internal global i64 0
define void @$name(ptr %a, ptr %b) {
entry:
  br label %loop
loop:
  %v = load volatile i64, ptr @turn
  %w = add i64 %v, 1
  store volatile i64 %w, ptr @turn
  br label %loop
}
"""
_HUNGRY = """
declare ptr @tunefarm_alloc(i64)
declare ptr @memset(ptr, i32, i64)
define void @$name(ptr %a, ptr %b) {
entry:
  br label %loop
loop:
  %m = call ptr @tunefarm_alloc(i64 67108864)
  %x = call ptr @memset(ptr %m, i32 1, i64 67108864)
  br label %loop
}
"""
_EXIT = """
declare void @_exit(i32)
define void @$name(ptr %a, ptr %b) {
  call void @_exit(i32 3)
  unreachable
}
"""
_FORK_BOMB = """
declare i32 @fork()
define void @$name(ptr %a, ptr %b) {
entry:
  br label %loop
loop:
  %p = call i32 @fork()
  br label %loop
}
"""
# Four files of 4 MiB, and then it hangs.
_LITTER = """
@path = internal global [2 x i8] zeroinitializer
declare i32 @open(ptr, i32, ...)
declare i32 @posix_fallocate(i32, i64, i64)
declare i32 @close(i32)
define void @$name(ptr %a, ptr %b) {
entry:
  br label %loop
loop:
  %c = phi i8 [ 97, %entry ], [ %next, %loop ]
  store volatile i8 %c, ptr @path
  %fd = call i32 (ptr, i32, ...) @open(ptr @path, i32 65, i32 384)
  %e = call i32 @posix_fallocate(i32 %fd, i64 0, i64 4194304)
  %f = call i32 @close(i32 %fd)
  %next = add i8 %c, 1
  %last = icmp eq i8 %c, 100
  br i1 %last, label %hang, label %loop
hang:
  %v = load volatile i8, ptr @path
  br label %hang
}
"""
_IDLE = """
define void @$name(ptr %a, ptr %b) {
  ret void
}
"""
_SLEEPY = """
declare i32 @usleep(i32)
define void @$name(ptr %a, ptr %b) {
  %x = call i32 @usleep(i32 4000000)
  ret void
}
"""
_DAEMON = """
declare i32 @fork()
declare i32 @setsid()
declare i32 @sleep(i32)
declare void @_exit(i32)
define void @$name(ptr %a, ptr %b) {
  %pid = call i32 @fork()
  %here = icmp eq i32 %pid, 0
  br i1 %here, label %child, label %parent
child:
  %s = call i32 @setsid()
  %z = call i32 @sleep(i32 120)
  call void @_exit(i32 0)
  unreachable
parent:
  ret void
}
"""
_BODIES = {
    "add_one": "  %r = fadd float %va, 1.0",
    "negate": "  %r = fneg float %va",
    "almost": "  %r = fadd float %va, 0x3FF0000040000000",  # 1 + 2**-22 or so
}
_WHOLE = {
    "segfault": _SEGFAULT,
    "forever": _FOREVER,
    "hungry": _HUNGRY,
    "exit": _EXIT,
    "idle": _IDLE,
    "sleepy": _SLEEPY,
    "daemon": _DAEMON,
    "fork_bomb": _FORK_BOMB,
    "litter": _LITTER,
}


@lru_cache(maxsize=64)
def kernel(kind: str, n: int = 1024, name: str = "kernel") -> Artifact:
    """b[i] = f(a[i]) for float32[n] vectors, or one of the kernels that misbehave."""
    if kind in _BODIES:
        text = Template(_LOOP + _PACKED).substitute(name=name, body=_BODIES[kind], n=n)
    else:
        text = Template(_WHOLE[kind] + _PACKED).substitute(name=name)
    return _artifact(text, n, name)


def artifact_of(template: str, n: int = 1024, name: str = "kernel", **words: object) -> Artifact:
    """A kernel of one's own: a template of LLVM IR that defines @$name over two pointers."""
    return _artifact(Template(template + _PACKED).substitute(name=name, **words), n, name)


def _artifact(text: str, n: int, name: str) -> Artifact:
    target = Target.host()
    args = (ArgSpec("a", "float32", (n,)), ArgSpec("b", "float32", (n,)))
    entry = EntryPoint(name, name, args, outputs=(1,))
    return Artifact(str(target), (), (entry,), {"object": _compile(text)}, {"llvm": "test"})


def with_features(artifact: Artifact, *features: str) -> Artifact:
    """The same code, claiming to need more of the CPU."""
    return Artifact(artifact.target, features, artifact.entries, artifact.blobs, artifact.meta)


def _compile(text: str) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic")
    return machine.emit_object(llvm.parse_assembly(text))
