"""Arguments with strides and offsets: buffers declared by hand and bound to tensors."""

import numpy as np
import tvm
from tvm import te, tir

m, n = te.var("m"), te.var("n")
A = te.placeholder((m, n), name="A")
B = te.compute((m, n), lambda i, j: A[i, j] + 1.0, name="B")
s = te.create_schedule(B.op)
stride = te.var("s0")
Ab = tir.decl_buffer(A.shape, A.dtype, name="A", strides=[stride, 1])
f = tvm.build(s, [A, B], "llvm", binds={A: Ab})
base = np.arange(12, dtype="float32").reshape(3, 4)
b = tvm.nd.empty((3, 4))
f(tvm.nd.array(base), b)
print(b.numpy().tolist())

buf = tir.decl_buffer((4, 8), "float32", name="buf")
print(buf.name, buf.dtype, [int(d) for d in buf.shape], len(buf.strides), buf.data.dtype)
print(type(buf.vload([0, 0])).__name__, type(buf.vstore([0, 0], 1.0)).__name__, buf.vload([0, 0], "float32x4").dtype)
print(type(buf[1, 2]).__name__, buf[1, 2].dtype, buf.access_ptr("r").dtype, [int(i) for i in buf.offset_of([1, 2])])
local = tir.decl_buffer((4,), "int8", scope="shared", data_alignment=64, offset_factor=4)
print(local.data_alignment, local.offset_factor)
