"""Reductions: sums over two axes, products, arg-reductions with a reducer of one's own, conditions, initial values."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

rng = np.random.RandomState(0)


def run(args, outs, *inputs):
    s = te.create_schedule([o.op for o in outs])
    f = tvm.build(s, args + outs, "llvm")
    arrays = [tvm.nd.array(i) for i in inputs]
    results = [tvm.nd.array(np.zeros([int(d) for d in o.shape], o.dtype)) for o in outs]
    f(*arrays, *results)
    return [r.numpy() for r in results]


x = rng.randint(1, 5, size=(6, 5, 4)).astype("float32")
X = te.placeholder((6, 5, 4), name="X")
r1, r2 = te.reduce_axis((0, 5), "r1"), te.reduce_axis((0, 4), name="r2")
total = te.compute((6,), lambda i: te.sum(X[i, r1, r2], axis=[r1, r2]), name="total")
print(run([X], [total], x)[0].tolist())
print([int(r.dom.extent) for r in total.op.reduce_axis], [r.var.name for r in total.op.reduce_axis])

k = te.reduce_axis((0, 4), "k")
big = te.compute((6, 5), lambda i, j: te.max(X[i, j, k], axis=k), name="big")
small = te.compute((6, 5), lambda i, j: te.min(X[i, j, k], axis=k), name="small")
for out, of in zip((big, small), (np.max, np.min)):
    np.testing.assert_array_equal(run([X], [out], x)[0], of(x, axis=2))
    print(out.op.name, "ok")

even = te.compute((6, 5), lambda i, j: te.sum(X[i, j, k], axis=k, where=(k % 2).equal(0)), name="even")
np.testing.assert_array_equal(run([X], [even], x)[0], x[:, :, ::2].sum(axis=2))
print("where ok")


def combine(lhs, rhs):
    first = lhs[1] >= rhs[1]
    return tvm.tir.Select(first, lhs[0], rhs[0]), tvm.tir.Select(first, lhs[1], rhs[1])


def identity(t0, t1):
    return tvm.tir.const(-1, t0), tvm.te.min_value(t1)


argmax = te.comm_reducer(combine, identity, name="argmax")
idx = te.placeholder((6, 20), name="idx", dtype="int32")
val = te.placeholder((6, 20), name="val", dtype="float32")
k = te.reduce_axis((0, 20), "k")
T0, T1 = te.compute((6,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
indices = np.tile(np.arange(20, dtype="int32"), (6, 1))
values = rng.permutation(120).reshape(6, 20).astype("float32")
where, found = run([idx, val], [T0, T1], indices, values)
np.testing.assert_array_equal(where, values.argmax(axis=1))
np.testing.assert_array_equal(found, values.max(axis=1))
print(T0.op.num_outputs, T0.value_index, T1.value_index, T0.op.same_as(T1.op), where.tolist())

B = te.compute((6,), lambda i: te.sum(val[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=4)
BF = s.rfactor(B, ki)
print([int(d) for d in BF.shape], len(s.stages), [v.var.name for v in s[BF].op.reduce_axis])
f = tvm.build(s, [val, B], "llvm")
b = tvm.nd.empty((6,), "float32")
f(tvm.nd.array(values), b)
tvm.testing.assert_allclose(b.numpy(), values.sum(axis=1))
