"""Stages that are no plain computations: a scan, loops written by hand, a call of a Python function."""

import numpy as np
import tvm
from tvm import te

m, n = te.size_var("m"), te.size_var("n")
X = te.placeholder((m, n), name="X")
s_state = te.placeholder((m, n))
s_init = te.compute((1, n), lambda _, i: X[0, i])
s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
s_scan = te.scan(s_init, s_update, s_state, inputs=[X])
s = te.create_schedule(s_scan.op)
print(type(s_scan.op).__name__, s_scan.op.scan_axis.var.name, len(s_scan.op.spatial_axis_))
fscan = tvm.build(s, [X, s_scan], "llvm", name="myscan")
a = np.arange(12, dtype="float32").reshape(4, 3)
b = tvm.nd.empty((4, 3))
fscan(tvm.nd.array(a), b)
print(b.numpy().tolist())


def doubled(ins, outs):
    ib = tvm.tir.ir_builder.create()
    src, dst = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, 8, name="i") as i:
        with ib.if_scope(ib.likely(i < 4)):
            dst[i] = src[i] * 2.0
        with ib.else_scope():
            dst[i] = src[i]
    return ib.get()


A = te.placeholder((8,), name="A")
D = te.extern((8,), [A], doubled, name="D", dtype="float32")
E = te.compute((8,), lambda i: D[i] + 1.0, name="E")
s = te.create_schedule(E.op)
f = tvm.build(s, [A, E], "llvm")
e = tvm.nd.empty((8,))
f(tvm.nd.array(np.arange(8, dtype="float32")), e)
print(e.numpy().tolist())
print(type(D.op).__name__, [t.op.name for t in D.op.inputs])
