"""Functions of TensorIR whose sizes and loops are of 64 bits."""

import numpy as np
import tvm
from tvm import te

n = te.var("n")
A = te.placeholder((n, 16), name="A")
k = te.reduce_axis((0, 16), name="k")
B = te.compute((n, 16), lambda i, j: A[i, j] + (i * 2).astype("float32"), name="B")
C = te.compute((n,), lambda i: te.sum(te.if_then_else(k < 8, B[i, k], 0.0), axis=k), name="C")
for override in [None, "int64"]:
    func = te.create_prim_func([A, C], index_dtype_override=override)
    buffers = [func.buffer_map[param] for param in func.params]
    print([[str(size.dtype) for size in buffer.shape] for buffer in buffers])
    s = tvm.tir.Schedule(func)
    print([[str(s.get(loop).loop_var.dtype) for loop in s.get_loops(s.get_block(name))] for name in ["B", "C"]])
    s.compute_inline(s.get_block("B"))
    values = np.arange(48, dtype="float32").reshape(3, 16)
    out = tvm.nd.empty((3,))
    tvm.build(s.mod, target="llvm")(tvm.nd.array(values), out)
    print(out.numpy().tolist())
