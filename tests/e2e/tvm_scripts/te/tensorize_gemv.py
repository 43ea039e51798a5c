"""Tensorize: an intrinsic declared by te, with bodies for the whole, the start and the update."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

N, M, L = 16, 32, 12
A = te.placeholder((N, L), name="A")
B = te.placeholder((M, L), name="B")
k = te.reduce_axis((0, L), name="k")
C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")


def intrin_gemv(m, l):
    a = te.placeholder((l,), name="a")
    b = te.placeholder((m, l), name="b")
    kk = te.reduce_axis((0, l), name="k")
    c = te.compute((m,), lambda i: te.sum(a[kk] * b[i, kk], axis=kk), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def body():
            ib = tvm.tir.ir_builder.create()
            with ib.for_range(0, m, "i") as i, ib.for_range(0, l, "p") as p:
                ib.emit(cc.vstore(i, cc.vload(i) + aa.vload(p) * bb.vload([i, p])))
            return ib.get()

        def reset():
            ib = tvm.tir.ir_builder.create()
            with ib.for_range(0, m, "i") as i:
                ib.emit(cc.vstore(i, tvm.tir.const(0, "float32")))
            return ib.get()

        def whole():
            ib = tvm.tir.ir_builder.create()
            ib.emit(reset())
            ib.emit(body())
            return ib.get()

        return whole(), reset(), body()

    return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb}, name="gemv")


gemv = intrin_gemv(8, L)
print(type(gemv).__name__, gemv.name)
for factor in (L, 4):
    intrin = intrin_gemv(8, factor)
    s = te.create_schedule(C.op)
    xi, xo = C.op.axis
    yo, yi = s[C].split(C.op.axis[1], factor=8)
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=factor)
    s[C].reorder(C.op.axis[0], yo, ko, yi, ki)
    s[C].tensorize(yi, intrin)
    func = tvm.build(s, [A, B, C], target="llvm", name="gemv")
    a = np.random.RandomState(1).uniform(size=(N, L)).astype("float32")
    b = np.random.RandomState(2).uniform(size=(M, L)).astype("float32")
    c = tvm.nd.empty((N, M))
    func(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), np.dot(a, b.T), rtol=1e-3)
    print("factor", factor, "ok")
