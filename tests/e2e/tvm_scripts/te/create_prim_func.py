"""From te to TensorIR: blocks by name, scheduled as a function, several outputs, a function with symbolic sizes."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, tir

A = te.placeholder((16, 16), name="A")
B = te.placeholder((16, 16), name="B")
k = te.reduce_axis((0, 16), "k")
C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
D = te.compute((16, 16), lambda i, j: tir.max(C[i, j], tir.const(0, "float32")), name="D")
func = te.create_prim_func([A, B, D])
print(
    type(func).__name__, len(func.params), [func.buffer_map[p].name for p in func.params], func.attrs["global_symbol"]
)
sch = tir.Schedule(func)
print([sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))])
c = sch.get_block("C")
i, j, kk = sch.get_loops(c)
i0, i1 = sch.split(i, [4, 4])
sch.parallel(i0)
f = tvm.build(sch.mod, target="llvm")
a = np.random.RandomState(0).randn(16, 16).astype("float32")
b = np.random.RandomState(1).randn(16, 16).astype("float32")
d = tvm.nd.empty((16, 16))
f(tvm.nd.array(a), tvm.nd.array(b), d)
tvm.testing.assert_allclose(d.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)

n = te.var("n")
X = te.placeholder((n, 4), name="X")
Y = te.compute((n, 4), lambda i, j: X[i, j] * 2.0, name="Y")
Z = te.compute((n, 4), lambda i, j: Y[i, j] + 1.0, name="Z")
func = te.create_prim_func([X, Y, Z])
f = tvm.build(func, target="llvm")
for size in (1, 7):
    x = np.arange(size * 4, dtype="float32").reshape(size, 4)
    y, z = tvm.nd.empty((size, 4)), tvm.nd.empty((size, 4))
    f(tvm.nd.array(x), y, z)
    print(y.numpy().sum(), z.numpy().sum())

special = func.specialize({func.params[0]: tir.decl_buffer((8, 4), "float32")})
print([int(s) for s in special.buffer_map[special.params[1]].shape])
twice = te.create_prim_func([X, Z])
print(tvm.ir.structural_equal(te.create_prim_func([X, Z]), twice), tvm.ir.structural_equal(func, twice))
