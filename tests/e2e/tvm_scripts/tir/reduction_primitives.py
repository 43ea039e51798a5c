"""Reductions in TensorIR: rfactor, decompose_reduction, cache_write, compute_at, tensorize with an intrinsic."""

import numpy as np
import tvm
import tvm.testing
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def row_sum(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 32):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


a = np.random.RandomState(3).rand(8, 32).astype("float32")


def check(name, sch):
    f = tvm.build(sch.mod, target="llvm")
    b = tvm.nd.empty((8,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.sum(axis=1), rtol=1e-5)
    print(name, "ok")


sch = tir.Schedule(row_sum)
i, k = sch.get_loops("B")
ko, ki = sch.split(k, [None, 4])
rf = sch.rfactor(ki, 0)
print(sch.get(rf).name_hint, len(sch.get_loops(rf)), [int(d) for d in sch.get(rf).writes[0].buffer.shape])
check("rfactor", sch)

sch = tir.Schedule(row_sum)
i, k = sch.get_loops("B")
init = sch.decompose_reduction("B", k)
print(sch.get(init).name_hint, [int(v.iter_type) for v in sch.get(sch.get_block("B_update")).iter_vars])
check("decompose", sch)

sch = tir.Schedule(row_sum)
block = sch.get_block("B")
cached = sch.cache_write(block, 0, "global")
i, k = sch.get_loops(block)
io, ii = sch.split(i, [2, 4])
sch.reverse_compute_at(cached, io)
check("cache_write", sch)

sch = tir.Schedule(row_sum)
i, k = sch.get_loops("B")
sch.annotate(i, "pragma_unroll_explicit", 1)
print(int(sch.get(i).annotations["pragma_unroll_explicit"]))
check("annotate", sch)


@T.prim_func
def dot_desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[()], A[0:4], B[0:4])
        T.writes(C[()])
        for i in range(4):
            with T.block("update"):
                vi = T.axis.reduce(4, i)
                C[()] = C[()] + A[vi] * B[vi]


@T.prim_func
def dot_impl(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[()], A[0:4], B[0:4])
        T.writes(C[()])
        C[()] = C[()] + A[0] * B[0] + A[1] * B[1] + A[2] * B[2] + A[3] * B[3]


tir.TensorIntrin.register("scripts.dot4", dot_desc, dot_impl, override=True)
print(type(tir.TensorIntrin.get("scripts.dot4")).__name__)


@T.prim_func
def matmul(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


sch = tir.Schedule(matmul)
i, j, k = sch.get_loops("C")
ko, ki = sch.split(k, [None, 4])
sch.decompose_reduction("C", ko)
sch.tensorize(ki, "scripts.dot4")
f = tvm.build(sch.mod, target="llvm")
x, y = np.random.RandomState(0).rand(8, 16).astype("float32"), np.random.RandomState(1).rand(8, 16).astype("float32")
c = tvm.nd.empty((8, 8))
f(tvm.nd.array(x), tvm.nd.array(y), c)
tvm.testing.assert_allclose(c.numpy(), x @ y.T, rtol=1e-5)
print("tensorized ok")
