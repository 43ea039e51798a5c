"""Blocks made of loops, layouts and blocks transformed, reductions decomposed and merged."""

import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


a, b = (np.random.RandomState(s).rand(16, 16).astype("float32") for s in (0, 1))


def check(label, sch):
    c = tvm.nd.empty((16, 16))
    tvm.build(sch.mod, target="llvm")(tvm.nd.array(a), tvm.nd.array(b), c)
    print(label, np.allclose(c.numpy(), a @ b, rtol=1e-4))


sch = tir.Schedule(matmul)
i, j, k = sch.get_loops(sch.get_block("C"))
io, ii = sch.split(i, [None, 4])
jo, ji = sch.split(j, [4, None])
sch.reorder(io, jo, k, ii, ji)
blocked = sch.blockize(ii)
print(sch.get(blocked).name_hint, len(sch.get(blocked).iter_vars))
check("blockize", sch)

sch = tir.Schedule(matmul)
init = sch.decompose_reduction(sch.get_block("C"), sch.get_loops(sch.get_block("C"))[2])
print(sch.get(init).name_hint, len(sch.get_loops(init)))
check("decompose", sch)

sch = tir.Schedule(matmul)
i, j, k = sch.get_loops(sch.get_block("C"))
ko, ki = sch.split(k, [4, 4])
factored = sch.rfactor(ki, factor_axis=0)
print(sch.get(factored).name_hint, len(sch.get(factored).iter_vars))
check("rfactor", sch)

sch = tir.Schedule(matmul)
copied = sch.reindex(sch.get_block("C"), ("read", 0))
print(len(sch.get(copied).iter_vars))
check("reindex", sch)

sch = tir.Schedule(matmul)
i, j, k = sch.get_loops(sch.get_block("C"))
sch.parallel(sch.fuse(i, j))
sch.unroll(k)
check("fuse", sch)

sch = tir.Schedule(matmul)
sch.add_unit_loop(sch.get_block("C"))
print(len(sch.get_loops(sch.get_block("C"))))
check("unit loop", sch)
print([type(sch.get(l)).__name__ for l in sch.get_loops(sch.get_block("C"))][:2], sch.get_child_blocks(sch.get_block("root")) != [])
