"""One function for many shapes, and what it refuses."""

import numpy as np
import tvm
from tvm import te

n, m = te.size_var("n"), te.size_var("m")
A = te.placeholder((n, m), name="A")
B = te.placeholder((m,), name="B")
C = te.compute((n, m), lambda i, j: A[i, j] * B[j], name="C")
k = te.reduce_axis((0, m), "k")
D = te.compute((n,), lambda i: te.sum(C[i, k], axis=k), name="D")
s = te.create_schedule(D.op)
io, ii = s[D].split(D.op.axis[0], factor=3)
s[C].compute_at(s[D], io)
f = tvm.build(s, [A, B, D], "llvm")
for rows, columns in ((4, 5), (7, 1), (1, 9)):
    a = np.arange(rows * columns, dtype="float32").reshape(rows, columns)
    b = np.linspace(0, 1, columns).astype("float32")
    out = tvm.nd.empty((rows,))
    f(tvm.nd.array(a), tvm.nd.array(b), out)
    print(rows, columns, np.allclose(out.numpy(), a @ b, rtol=1e-4))
for shapes in (((4, 5), (4,), (4,)), ((4, 5), (5,), (5,))):
    try:
        f(*(tvm.nd.empty(shape) for shape in shapes))
        print("no error")
    except Exception as error:
        print("refused", isinstance(error, (tvm.TVMError, ValueError)))
try:
    f(tvm.nd.empty((4, 5), "float64"), tvm.nd.empty((5,)), tvm.nd.empty((4,)))
    print("no error")
except Exception as error:
    print("refused", isinstance(error, (tvm.TVMError, ValueError, TypeError)))
print(C.shape[0].same_as(n), C.ndim, D.op.reduce_axis[0].dom.extent.same_as(m))
