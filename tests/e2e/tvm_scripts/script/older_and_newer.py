"""Spellings that TVMScript has had: remap of one loop, handles with match_buffer, thread bindings, allocate_const, macros."""

import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def handles(a: T.handle, b: T.handle, n: T.int32) -> None:
    T.func_attr({"global_symbol": "handles", "tir.noalias": True})
    A = T.match_buffer(a, [n], dtype="float32")
    B = T.match_buffer(b, [n], dtype="float32")
    for i in T.serial(0, n):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = T.cast(T.max(A[vi], T.float32(1)), "float32") + T.Cast("float32", T.int32(2))


f = tvm.build(handles, target="llvm")
b = tvm.nd.empty((4,))
f(tvm.nd.array(np.arange(4, dtype="float32")), b, 4)
print(b.numpy().tolist())


@T.prim_func
def threads(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for i0 in T.thread_binding(4, thread="blockIdx.x"):
        for i1 in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(32, i0 * 8 + i1)
                B[vi] = A[vi]


sch = tvm.tir.Schedule(threads)
loop = sch.get_loops(sch.get_block("B"))
print(len(loop), tvm.ir.structural_equal(tvm.script.from_source(threads.script()), threads))


@T.prim_func
def locals_(A: T.Buffer((8,), "int32")):
    for i in T.unroll(8):
        x: T.int32 = i * 2
        y = T.int32(3)
        A[i] = x + y
    assert T.int32(1) == 1, "never"


f = tvm.build(locals_, target="llvm")
x = tvm.nd.array(np.zeros(8, "int32"))
f(x)
print(x.numpy().tolist())

N = 6


@T.prim_func
def captured(A: T.Buffer((N,), "float32")):
    for i in T.serial(N):
        A[i] = T.float32(N) * T.Select(i < N // 2, T.float32(1), T.float32(2))


f = tvm.build(captured, target="llvm")
y = tvm.nd.empty((N,))
f(y)
print(y.numpy().tolist())


@tvm.script.ir_module
class Mod:
    @T.prim_func
    def main(A: T.Buffer(4, "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.vectorized(4):
            A[i] = T.float32(3)


f = tvm.build(Mod, target="llvm")
z = tvm.nd.empty((4,))
f(z)
print(z.numpy().tolist(), [g.name_hint for g in Mod.get_global_vars()])


@T.prim_func
def loops(A: T.Buffer((16,), "int32")):
    i = T.alloc_buffer((1,), "int32")
    i[0] = 0
    while i[0] < 16:
        A[i[0]] = i[0] * i[0]
        i[0] = i[0] + 1


f = tvm.build(loops, target="llvm")
w = tvm.nd.array(np.zeros(16, "int32"))
f(w)
print(w.numpy().tolist())
