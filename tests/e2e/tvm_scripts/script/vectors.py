"""Vectors in texts: broadcasts, ramps, slices and loops with a start."""

import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def shifted(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    B[0:4] = A[0:4] + T.broadcast(T.float32(1), 4)
    B[4:8] = A[4:8] + T.Broadcast(T.float32(2), 4)
    for i in T.serial(8):
        B[i + 8] = A[7 - i]


@T.prim_func
def strided(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "float32")):
    B[0:4] = A[T.ramp(1, 3, 4)] * T.broadcast(T.float32(2), 4)


values = np.arange(16, dtype="float32")
for func, size in ((shifted, 16), (strided, 4)):
    out = tvm.nd.empty((size,))
    tvm.build(func, target="llvm")(tvm.nd.array(values), out)
    print(out.numpy().tolist())
    print(tvm.ir.structural_equal(tvm.script.from_source(func.script()), func))
