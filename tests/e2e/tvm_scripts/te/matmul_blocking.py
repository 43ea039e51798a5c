"""Matrix product, step by step: blocks, vectors, permuted loops, packed operand, a cache of the block written, threads."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

M = N = K = 64
bn, kfactor = 16, 4
dtype = "float32"
target = "llvm"
dev = tvm.device(target, 0)
rng = np.random.RandomState(7)
a = tvm.nd.array(rng.rand(M, K).astype(dtype), dev)
b = tvm.nd.array(rng.rand(K, N).astype(dtype), dev)
answer = np.dot(a.numpy(), b.numpy())

k = te.reduce_axis((0, K), "k")
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")


def check(s, args, name):
    func = tvm.build(s, args, target=target, name=name)
    c = tvm.nd.array(np.zeros((M, N), dtype=dtype), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), answer, rtol=1e-5)
    print(name, "ok")


s = te.create_schedule(C.op)
check(s, [A, B, C], "mmult")

s = te.create_schedule(C.op)
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
(kaxis,) = s[C].op.reduce_axis
ko, ki = s[C].split(kaxis, factor=kfactor)
s[C].reorder(mo, no, ko, ki, mi, ni)
s[C].vectorize(ni)
check(s, [A, B, C], "blocked")
print([v.var.name for v in s[C].leaf_iter_vars])

packedB = te.compute((N // bn, K, bn), lambda bigN, kk, littleN: B[kk, bigN * bn + littleN], name="packedB")
C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, tvm.tir.indexmod(n, bn)], axis=k), name="C")
s = te.create_schedule(C.op)
CC = s.cache_write(C, "global")
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
s[CC].compute_at(s[C], no)
mc, nc = s[CC].op.axis
(kaxis,) = s[CC].op.reduce_axis
ko, ki = s[CC].split(kaxis, factor=kfactor)
s[CC].reorder(ko, mc, ki, nc)
s[CC].vectorize(nc)
s[CC].unroll(ki)
bigN, _, littleN = s[packedB].op.axis
s[packedB].vectorize(littleN)
s[packedB].parallel(bigN)
s[C].parallel(mo)
check(s, [A, B, C], "packed")
print([stage.op.name for stage in s.stages])
mod = tvm.lower(s, [A, B, C], simple_mode=True)
print(type(mod).__name__, [gv.name_hint for gv in mod.get_global_vars()])
