"""Groups in groups, caches and factors of stages whose loops were changed, attachments to loops that were."""

import numpy as np
import tvm
from tvm import te

size = 24
A = te.placeholder((size, size), name="A")
B = te.compute((size, size), lambda i, j: A[i, j] + 1, name="B")
C = te.compute((size, size), lambda i, j: B[i, j] * 2, name="C")
D = te.compute((size, size), lambda i, j: C[i, j] - 3, name="D")
a = np.arange(size * size, dtype="float32").reshape(size, size)


def check(s, args, wanted):
    built = tvm.build(s, args, "llvm")
    out = tvm.nd.array(np.zeros([int(extent) for extent in args[-1].shape], "float32"))
    built(tvm.nd.array(a), out)
    print(np.allclose(out.numpy(), wanted, rtol=1e-4))


s = te.create_schedule(D.op)
outer = s.create_group(outputs=C, inputs=A, include_inputs=False)
inner = s.create_group(outputs=B, inputs=A, include_inputs=False)
print(s[B].group == inner, s[C].group == outer, inner.group == outer)
outer.compute_at(s[D], D.op.axis[0])
check(s, [A, D], (a + 1) * 2 - 3)

s = te.create_schedule(D.op)
s[C].compute_at(s[D], D.op.axis[0])
s[B].compute_inline()
xo, xi = s[D].split(D.op.axis[0], factor=5)
bounds = tvm.te.schedule.InferBound(s.normalize())
print([int(bounds[axis].extent) for axis in (C.op.axis[0], C.op.axis[1], xo, xi)])
check(s, [A, D], (a + 1) * 2 - 3)

k = te.reduce_axis((0, size), name="k")
T = te.compute((size,), lambda i: te.sum(A[i, k], axis=k), name="T")
s = te.create_schedule(T.op)
s[T].split(T.op.axis[0], factor=8)
cached = s.cache_write(T, "global")
print([int(extent) for extent in cached.shape], len(s[T].leaf_iter_vars))
check(s, [A, T], a.sum(1))

s = te.create_schedule(T.op)
ko, ki = s[T].split(k, factor=4)
partial = s.rfactor(T, ki)
print([int(extent) for extent in partial.shape], partial.op.reduce_axis[0].var.same_as(ko.var), len(s[T].all_iter_vars))
check(s, [A, T], a.sum(1))

graph = tvm.te.schedule.CreateReadGraph([D.op])
print(bool(graph[D.op][0] == C), [op.name for op in tvm.te.schedule.PostDFSOrder([D.op], graph)])
try:
    s[T].vectorize(s[T].op.reduce_axis[0])
except tvm.TVMError:
    print("not vectorized")
