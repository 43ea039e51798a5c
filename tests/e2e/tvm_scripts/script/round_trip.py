"""TVMScript: kinds of statements and expressions read, printed and read again; then run."""

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tir as T


@T.prim_func
def control(A: T.Buffer((10,), "int32"), n: T.int32, B: T.Buffer((10,), "int32")):
    for i in range(10):
        if i < n:
            B[i] = A[i]
        else:
            B[i] = T.if_then_else(A[i] > 5, 5, A[i], dtype="int32")
    k: T.int32 = n + 1
    with T.LetStmt(k * 2) as m:
        B[0] = B[0] + m
    for j in T.serial(9):
        B[j + 1] = B[j + 1] + T.cast(T.float32(0.5) * 4.0, "int32")
    T.evaluate(0)


@T.prim_func
def memory(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    tmp = T.alloc_buffer((4, 4), "float32", scope="global")
    for i, j in T.grid(4, 4):
        with T.block("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(tmp[vi, vj])
            T.block_attr({"note": 1})
            tmp[vi, vj] = A[vi, vj]
    for i in T.parallel(4):
        for j in T.vectorized(4):
            with T.block("out"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(4, j)
                T.where(i + j < 6)
                B[vi, vj] = T.max(tmp[vi, vj], T.float32(2)) + T.exp(T.float32(0))


for func in (control, memory):
    text = func.script()
    again = tvm.script.from_source(text)
    print(tvm.ir.structural_equal(func, again), "T.prim_func" in text, again.script() == text)

f = tvm.build(control, target="llvm")
b = tvm.nd.array(np.zeros(10, "int32"))
f(tvm.nd.array(np.arange(10, dtype="int32")), 4, b)
print(b.numpy().tolist())
f = tvm.build(memory, target="llvm")
b = tvm.nd.array(np.zeros((4, 4), "float32"))
f(tvm.nd.array(np.arange(16, dtype="float32").reshape(4, 4)), b)
print(b.numpy().tolist())


@I.ir_module
class Two:
    I.module_attrs({"level": 1})

    @T.prim_func
    def first(A: T.Buffer((4,), "float32")):
        for i in T.serial(4):
            A[i] = T.float32(1)

    @T.prim_func(private=True)
    def second(A: T.Buffer((4,), "float32")):
        for i in T.serial(4):
            A[i] = A[i] + T.float32(1)


print(sorted(g.name_hint for g in Two.get_global_vars()), "global_symbol" in (Two["second"].attrs or {}))
print(tvm.ir.structural_equal(tvm.script.from_source(Two.script()), Two), int(Two.attrs["level"]))
try:
    tvm.script.from_source("@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    A[0] = undefined_name\n", {"T": T})
    print("no error")
except tvm.error.DiagnosticError:
    print("DiagnosticError")
