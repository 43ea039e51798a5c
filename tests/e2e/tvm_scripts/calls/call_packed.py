"""A stage that calls a Python function, between two that are loops."""

import numpy as np
import tvm
from tvm import te

calls = []


@tvm.register_func("demo.shift_into")
def shift_into(x, y):
    calls.append((tuple(x.shape), str(y.dtype)))
    tvm.nd.array(np.roll(x.numpy(), 1)).copyto(y)


n = 8
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2, name="B")
C = te.extern(
    (n,), [B], lambda ins, outs: tvm.tir.call_packed("demo.shift_into", ins[0], outs[0]), name="C", dtype="float32"
)
D = te.compute((n,), lambda i: C[i] + 1, name="D")
s = te.create_schedule(D.op)
f = tvm.build(s, [A, D], "llvm")
out = tvm.nd.empty((n,))
f(tvm.nd.array(np.arange(n, dtype="float32")), out)
print(out.numpy().tolist(), calls)
