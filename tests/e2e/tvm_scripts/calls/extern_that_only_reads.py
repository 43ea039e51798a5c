"""A stage that hands an array to Python and writes nothing, after a stage of loops."""

import numpy as np
import tvm
from tvm import te

seen = []


@tvm.register_func("demo.look_at")
def look_at(x, count):
    seen.append((x.numpy().tolist(), count))


A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] * 2, name="B")
C = te.extern((4,), [B], lambda ins, outs: tvm.tir.call_packed("demo.look_at", ins[0], 4), name="C")
s = te.create_schedule(C.op)
f = tvm.build(s, [A, C], "llvm")
out = tvm.nd.array(np.full(4, 7, "float32"))
f(tvm.nd.array(np.arange(4, dtype="float32")), out)
print(seen, out.numpy().tolist())
