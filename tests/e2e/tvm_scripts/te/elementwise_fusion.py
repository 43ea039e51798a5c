"""Chains of elementwise stages: inlined automatically, computed at each other, and in parallel."""

import numpy as np
import tvm
from tvm import te

m, n = 12, 20
A = te.placeholder((m, n), name="A")
B = te.compute((m, n), lambda i, j: te.exp(A[i, j]), name="B")
C = te.compute((m, n), lambda i, j: B[i, j] + 1.0, name="C")
D = te.compute((m, n), lambda i, j: te.log(C[i, j]) * te.sigmoid(A[i, j]), name="D")


def plain(s):
    pass


def inlined(s):
    te.schedule.AutoInlineElemWise(s)


def nested(s):
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[1])
    s[D].parallel(D.op.axis[0])


def split_everywhere(s):
    outer, inner = s[D].split(D.op.axis[1], factor=8)
    s[D].vectorize(inner)
    s[C].compute_at(s[D], outer)
    s[B].compute_inline()
    xo, xi = s[D].split(D.op.axis[0], nparts=5)
    s[D].unroll(xi)


a = np.random.RandomState(1).rand(m, n).astype("float32")
ref = np.log(np.exp(a) + 1) / (1 + np.exp(-a))
for choose in (plain, inlined, nested, split_everywhere):
    s = te.create_schedule(D.op)
    choose(s)
    out = tvm.nd.empty((m, n))
    tvm.build(s, [A, D], "llvm")(tvm.nd.array(a), out)
    print(choose.__name__, np.allclose(out.numpy(), ref, rtol=1e-4), len(s.stages))
print(te.schedule.__name__.split(".")[-1], B.op.tag == "", D.op.name)
with te.tag_scope(tag="group"):
    E = te.compute((m,), lambda i: A[i, 0] * 2, name="E")
print(E.op.tag)
