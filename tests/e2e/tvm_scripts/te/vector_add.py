"""Add two vectors: the first program of most people."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
print(type(C).__name__, C.dtype, len(C.shape), C.op.name, C.op.tag == "")

s = te.create_schedule(C.op)
outer, inner = s[C].split(C.op.axis[0], factor=64)
s[C].parallel(outer)
s[C].vectorize(inner)
fadd = tvm.build(s, [A, B, C], "llvm", name="myadd")

dev = tvm.cpu(0)
for size in (1, 63, 64, 1024, 1027):
    a = tvm.nd.array(np.arange(size, dtype=A.dtype), dev)
    b = tvm.nd.array(np.full(size, 0.5, dtype=B.dtype), dev)
    c = tvm.nd.array(np.zeros(size, dtype=C.dtype), dev)
    fadd(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    print(size, float(c.numpy().sum()))

evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=3, repeat=2)
result = evaluator(a, b, c)
print(len(result.results), result.mean > 0, result.min <= result.median <= result.max)
