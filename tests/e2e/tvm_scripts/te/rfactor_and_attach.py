"""A factored reduction, and what schedules say of where stages are."""

import numpy as np
import tvm
from tvm import te

n, m = 6, 64
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
BF = s.rfactor(B, ki)
print(BF.op.name, [int(d) for d in BF.shape], [iv.var.name for iv in s[BF].op.reduce_axis], len(s.stages))
print([iv.var.name for iv in s[B].op.reduce_axis], [iv.var.name for iv in s[BF].op.axis])
f = tvm.build(s, [A, B], "llvm")
a = np.random.RandomState(0).rand(n, m).astype("float32")
b = tvm.nd.empty((n,))
f(tvm.nd.array(a), b)
print(np.allclose(b.numpy(), a.sum(1), rtol=1e-4))

T = te.compute((n, m), lambda i, j: A[i, j] * 2, name="T")
U = te.compute((n, m), lambda i, j: T[i, j] + 1, name="U")
s = te.create_schedule(U.op)
print(s[T].attach_type, s[U].attach_type)
s[T].compute_at(s[U], U.op.axis[0])
print(s[T].attach_type, s[T].attach_ivar.var.name, s[T].attach_stage.op.name)
s[T].compute_root()
print(s[T].attach_type)
s[T].compute_inline()
print(s[T].attach_type)
g = s.create_group(outputs=T, inputs=A, include_inputs=False)
g.compute_at(s[U], U.op.axis[0])
print(g.attach_type)
