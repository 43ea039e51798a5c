"""Functions made by the IR builder's frames instead of a parsed text."""

import numpy as np
import tvm
from tvm.script import tir as TT
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import ir as I
from tvm.script.ir_builder import tir as T

with IRBuilder() as ib:
    with T.prim_func():
        T.func_name("main")
        T.func_attr({"note": "built"})
        A = T.arg("A", T.Buffer((16, 16), "float32"))
        B = T.arg("B", T.Buffer((16, 16), "float32"))
        with T.grid(16, 16) as (i, j):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.spatial(16, j)
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                T.buffer_store(B, A[vi, vj] * T.float32(2), [vi, vj])
built = ib.get()


@TT.prim_func
def main(A: TT.Buffer((16, 16), "float32"), B: TT.Buffer((16, 16), "float32")):
    TT.func_attr({"note": "built"})
    for i, j in TT.grid(16, 16):
        with TT.block("B"):
            vi = TT.axis.spatial(16, i)
            vj = TT.axis.spatial(16, j)
            B[vi, vj] = A[vi, vj] * TT.float32(2)


print(tvm.ir.structural_equal(built.body, main.body, map_free_vars=True), built.attrs["note"])
a = np.random.RandomState(0).rand(16, 16).astype("float32")
b = tvm.nd.empty((16, 16))
tvm.build(built, target="llvm")(tvm.nd.array(a), b)
print((b.numpy() == a * 2).all())

with IRBuilder() as ib:
    with T.prim_func():
        T.func_name("loops")
        C = T.arg("C", T.Buffer((8,), "int32"))
        n = T.arg("n", T.int32())
        with T.serial(0, 8) as i:
            with T.If(i < n):
                with T.Then():
                    T.buffer_store(C, i * 2, [i])
                with T.Else():
                    T.buffer_store(C, -1, [i])
        with T.parallel(0, 4) as p:
            with T.vectorized(0, 2) as q:
                T.buffer_store(C, C[p * 2 + q] + 1, [p * 2 + q])
loops = ib.get()
c = tvm.nd.empty((8,), "int32")
tvm.build(loops, target="llvm")(c, 5)
print(c.numpy().tolist())

with IRBuilder() as ib:
    with I.ir_module():
        with T.prim_func():
            T.func_name("one")
            D = T.arg("D", T.Buffer((2,), "float32"))
            T.evaluate(D[0])
        with T.prim_func():
            T.func_name("two")
            E = T.arg("E", T.Buffer((2,), "float32"))
            T.evaluate(E[1])
module = ib.get()
print(type(module).__name__, sorted(g.name_hint for g in module.get_global_vars()))
