"""Stages of many dtypes, casts, and overflow."""

import numpy as np
import tvm
from tvm import te

n = 16
rng = np.random.RandomState(7)
for dtype in ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"):
    A = te.placeholder((n,), name="A", dtype=dtype)
    B = te.compute((n,), lambda i: A[i] + A[n - 1 - i], name="B")
    C = te.compute((n,), lambda i: B[i].astype("float32") * 0.5, name="C")
    f = tvm.build(te.create_schedule(C.op), [A, B, C], "llvm")
    a = rng.randint(0, 50, n).astype(dtype)
    b, c = tvm.nd.empty((n,), dtype), tvm.nd.empty((n,))
    f(tvm.nd.array(a), b, c)
    print(dtype, B.dtype, (b.numpy() == a + a[::-1]).all(), np.allclose(c.numpy(), (a + a[::-1]).astype("float32") / 2))
A = te.placeholder((n,), name="A", dtype="int32")
checks = te.compute((n,), lambda i: te.all(A[i] > 2, A[i] < 9), name="checks")
f = tvm.build(te.create_schedule(checks.op), [A, checks], "llvm")
a = np.arange(n, dtype="int32")
got = tvm.nd.empty((n,), "bool")
f(tvm.nd.array(a), got)
print(checks.dtype, got.numpy().sum())
wrap = te.compute((n,), lambda i: (A[i] * 100).astype("int8"), name="wrap")
f = tvm.build(te.create_schedule(wrap.op), [A, wrap], "llvm")
w = tvm.nd.empty((n,), "int8")
f(tvm.nd.array(a), w)
print((w.numpy() == (a * 100).astype("int8")).all())
bits = te.compute((n,), lambda i: (A[i] << 2) ^ (A[i] & 3) | (A[i] >> 1), name="bits")
f = tvm.build(te.create_schedule(bits.op), [A, bits], "llvm")
v = tvm.nd.empty((n,), "int32")
f(tvm.nd.array(a), v)
print((v.numpy() == ((a << 2) ^ (a & 3) | (a >> 1))).all())
