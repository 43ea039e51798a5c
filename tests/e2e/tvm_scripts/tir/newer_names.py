"""A kernel with the names of the newer version: tirx, s_tir, tensors, helpers of tvm.support."""

import numpy as np
import tvm
from tvm import s_tir, te, tirx
from tvm.ir import IRModule
from tvm.runtime.vm import VirtualMachine
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.support import cc, utils


@I.ir_module
class Mod:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((64, 64), "float32"), b: T.Buffer((64, 64), "float32"), c: T.Buffer((64, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i, j, k in T.grid(64, 64, 64):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    c[vi, vj] = T.float32(0)
                c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]


sch = Schedule(Mod)
block = sch.get_sblock("C")
i, j, k = sch.get_loops(block)
j0, j1 = sch.split(j, factors=[None, 8])
sch.reorder(i, j0, k, j1)
sch.vectorize(j1)
sch.decompose_reduction(block, k)
lib = tvm.compile(sch.mod, target="llvm")
a = np.random.rand(64, 64).astype("float32")
b = np.random.rand(64, 64).astype("float32")
out = tvm.runtime.empty((64, 64), "float32")
lib["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-4)
print(type(sch.mod).__name__, isinstance(block, s_tir.schedule.SBlockRV))
ev = lib.mod.time_evaluator("main", tvm.cpu(), number=2, repeat=2)
print(callable(lib.jit()["main"]))
print(len(ev(tvm.runtime.tensor(a), tvm.runtime.tensor(b), out).results))
t = utils.tempdir()
lib.export_library(t.relpath("x.so"))
lib2 = tvm.runtime.load_module(t.relpath("x.so"))
lib2["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
print(bool(np.allclose(out.numpy(), a @ b, rtol=1e-4)))
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
f = te.create_prim_func([A, B])
g = tvm.compile(IRModule({"main": f}), target="llvm")
x = tvm.runtime.tensor(np.arange(5, dtype="float32"))
y = tvm.runtime.empty((5,), "float32")
g(x, y)
print(y.numpy().tolist())
print(VirtualMachine.__name__, callable(cc.create_shared), callable(ms.tune_tir))
an = tvm.sym.Analyzer()
v = tirx.Var("v", "int32")
print(an.simplify(v + v - v))
