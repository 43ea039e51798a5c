"""Loops split by a size that the function is called with."""

import numpy as np
import tvm
from tvm import te

n, m = te.var("n"), te.var("m")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
values = np.arange(20, dtype="float32")
for way in ("factor", "nparts"):
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], **{way: m})
    print(outer.var.name, inner.var.name)
    f = tvm.build(s, [A, B, m], "llvm")
    for size in (1, 6, 20, 32):
        out = tvm.nd.empty((20,))
        f(tvm.nd.array(values), out, size)
        print(way, size, bool((out.numpy() == values * 2).all()))
