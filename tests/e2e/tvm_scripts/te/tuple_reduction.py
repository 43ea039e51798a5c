"""Reductions with several results: argmax, and a product beside a sum."""

import numpy as np
import tvm
from tvm import te


def combine(x, y):
    left = te.if_then_else(x[1] >= y[1], x[0], y[0])
    right = te.if_then_else(x[1] >= y[1], x[1], y[1])
    return left, right


def identity(t0, t1):
    return tvm.tir.const(-1, t0), te.min_value(t1)


argmax = te.comm_reducer(combine, identity, name="argmax")
m, n = 5, 16
index = te.placeholder((m, n), name="index", dtype="int32")
value = te.placeholder((m, n), name="value", dtype="float32")
k = te.reduce_axis((0, n), "k")
best, top = te.compute((m,), lambda i: argmax((index[i, k], value[i, k]), axis=k), name="best")
print(best.op.num_outputs, best.value_index, top.value_index, best.dtype, top.dtype)
s = te.create_schedule(best.op)
io, ii = s[best].split(best.op.axis[0], factor=4)
print([iv.var.name for iv in s[best].leaf_iter_vars])
f = tvm.build(s, [index, value, best, top], "llvm")
rng = np.random.RandomState(3)
v = rng.permutation(m * n).reshape(m, n).astype("float32")
ids = np.tile(np.arange(n, dtype="int32"), (m, 1))
bi, bv = tvm.nd.empty((m,), "int32"), tvm.nd.empty((m,))
f(tvm.nd.array(ids), tvm.nd.array(v), bi, bv)
print((bi.numpy() == v.argmax(1)).all(), (bv.numpy() == v.max(1)).all())

fsum = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda a, b: (tvm.tir.const(0, a), tvm.tir.const(1, b)))
j = te.reduce_axis((0, 4), "j")
X = te.placeholder((3, 4), name="X")
total, product = te.compute((3,), lambda i: fsum((X[i, j], X[i, j] + 1.0), axis=j), name="both")
f = tvm.build(te.create_schedule(total.op), [X, total, product], "llvm")
x = np.arange(12, dtype="float32").reshape(3, 4)
t, p = tvm.nd.empty((3,)), tvm.nd.empty((3,))
f(tvm.nd.array(x), t, p)
print(t.numpy().tolist(), (p.numpy() == (x + 1).prod(1)).all())
