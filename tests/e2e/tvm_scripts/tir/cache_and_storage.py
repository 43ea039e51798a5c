"""Caches, scopes, alignment and layouts of buffers."""

import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def chain(A: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    B = T.alloc_buffer((32, 32), "float32")
    for i, j in T.grid(32, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(32, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


def check(sch, label):
    f = tvm.build(sch.mod, target="llvm")
    a = np.random.RandomState(0).rand(32, 32).astype("float32")
    c = tvm.nd.empty((32, 32))
    f(tvm.nd.array(a), c)
    print(label, np.allclose(c.numpy(), a * 2 + 1), len(sch.trace.insts))


sch = tir.Schedule(chain)
block = sch.get_block("C")
copied = sch.cache_read(block, 0, "global")
print(sch.get(copied).name_hint, [sch.get(b).name_hint for b in sch.get_producers(block)])
check(sch, "cache_read")

sch = tir.Schedule(chain)
written = sch.cache_write(sch.get_block("C"), 0, "global")
print(sch.get(written).name_hint, [sch.get(b).name_hint for b in sch.get_consumers(sch.get_block("C"))])
check(sch, "cache_write")

sch = tir.Schedule(chain)
sch.storage_align(sch.get_block("B"), 0, axis=0, factor=32, offset=8)
print(dict(sch.get(sch.get_block("B")).annotations).keys() == {"buffer_dim_align"})
check(sch, "storage_align")

sch = tir.Schedule(chain)
sch.transform_layout(sch.get_block("B"), ("write", 0), lambda i, j: (i // 8, j, i % 8))
print([int(d) for d in sch.get(sch.get_block("B")).writes[0].buffer.shape])
check(sch, "transform_layout")

sch = tir.Schedule(chain)
sch.set_scope(sch.get_block("B"), 0, "global")
sch.compute_at(sch.get_block("B"), sch.get_loops(sch.get_block("C"))[0])
check(sch, "compute_at")

sch = tir.Schedule(chain)
sch.reverse_compute_at(sch.get_block("C"), sch.get_loops(sch.get_block("B"))[1])
check(sch, "reverse_compute_at")

sch = tir.Schedule(chain)
sch.compute_inline(sch.get_block("B"))
check(sch, "compute_inline")

sch = tir.Schedule(chain)
sch.reverse_compute_inline(sch.get_block("C"))
check(sch, "reverse_compute_inline")
