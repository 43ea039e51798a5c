"""Blocks and loops of a product in TVMScript, scheduled, traced, built."""

import numpy as np
import tvm
import tvm.testing
from tvm import tir
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for i, j, k in T.grid(64, 64, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


sch = tir.Schedule(MyModule)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
print(len(sch.get_loops(block)), type(block).__name__, type(i).__name__, sch.get(i).extent, sch.get(block).name_hint)
i0, i1 = sch.split(i, factors=[None, 8])
j0, j1 = sch.split(j, factors=[8, None])
k0, k1 = sch.split(k, factors=[16, 4])
sch.reorder(i0, j0, k0, k1, i1, j1)
sch.vectorize(j1)
sch.parallel(i0)
init = sch.decompose_reduction(block, k0)
sch.unroll(k1)
print([len(inst.outputs) for inst in sch.trace.insts])
print([str(sch.get(loop).extent) for loop in sch.get_loops(block)])
print(sch.get(init).name_hint, [int(sch.get(loop).kind) for loop in sch.get_loops(block)])

f = tvm.build(sch.mod, target="llvm")
a = np.random.RandomState(0).rand(64, 64).astype("float32")
b = np.random.RandomState(1).rand(64, 64).astype("float32")
c = tvm.nd.array(np.zeros((64, 64), "float32"))
f(tvm.nd.array(a), tvm.nd.array(b), c)
tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)

again = tir.Schedule(MyModule)
sch.trace.apply_to_schedule(again, remove_postproc=False)
print(tvm.ir.structural_equal(again.mod, sch.mod), tvm.ir.structural_equal(MyModule, sch.mod))
print(tvm.ir.structural_hash(again.mod) == tvm.ir.structural_hash(sch.mod))
text = sch.mod.script()
print(tvm.ir.structural_equal(tvm.script.from_source(text), sch.mod))
