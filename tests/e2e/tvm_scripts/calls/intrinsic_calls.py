"""Stages that tensor intrinsics compute: regions by slices, scalar parameters, a reduction in steps."""

import numpy as np
import tvm
from tvm import te

M, F = 8, 4


@tvm.register_func("demo.vadd")
def vadd_packed(x, y, z):
    tvm.nd.array(x.numpy() + y.numpy()).copyto(z)


@tvm.register_func("demo.scale")
def scale_packed(x, y, factor, offset):
    tvm.nd.array(x.numpy() * factor + offset).copyto(y)


def vadd(n):
    x = te.placeholder((n,), name="vx")
    y = te.placeholder((n,), name="vy")
    z = te.compute(x.shape, lambda i: x[i] + y[i], name="vz")

    def lowered(ins, outs):
        ib = tvm.tir.ir_builder.create()
        ib.emit(tvm.tir.call_packed("demo.vadd", ins[0], ins[1], outs[0]))
        return ib.get()

    return te.decl_tensor_intrin(z.op, lowered, default_buffer_params={"offset_factor": n})


A = te.placeholder((M // F, F), name="A")
B = te.placeholder((M // F, F), name="B")
add = vadd(F)
C = te.compute((M // F, F), lambda i: add(A[i, 0:F], B[i, 0:F]), name="C")
D = te.compute((M // F, F), lambda i, j: C[i, j] * 10, name="D")
print([int(d) for d in C.shape], C.dtype)
f = tvm.build(te.create_schedule(D.op), [A, B, D], "llvm")
a = tvm.nd.array(np.arange(M, dtype="float32").reshape(M // F, F))
d = tvm.nd.empty((M // F, F))
f(a, a, d)
print(d.numpy().tolist())

n, v, w = te.size_var("n"), te.size_var("v"), te.size_var("w")
x = te.placeholder((n,), name="x")
z = te.compute((n,), lambda i: x[i] * v + w, name="z")
scale = te.decl_tensor_intrin(
    z.op,
    lambda ins, outs, sp: tvm.tir.call_packed("demo.scale", ins[0], outs[0], sp[0], sp[1]),
    scalar_params=[v, w],
    default_buffer_params={"offset_factor": 1},
)
print([str(p.name) for p in scale.scalar_params])
E = te.placeholder((3, 3), name="E")
G = te.compute((3, 3), lambda i, j: scale(i * i, E[i, j], i + j), name="G")
f = tvm.build(te.create_schedule(G.op), [E, G], "llvm")
g = tvm.nd.empty((3, 3))
f(tvm.nd.array(np.arange(9, dtype="float32").reshape(3, 3)), g)
print(g.numpy().tolist())


def gemv(m):
    a = te.placeholder((m,), name="a")
    b = te.placeholder((m, m), name="b")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

    def lowered(ins, outs):
        def init():
            ib = tvm.tir.ir_builder.create()
            out = ib.buffer_ptr(outs[0])
            with ib.for_range(0, m) as i:
                out[i] = tvm.tir.const(0.0, "float32")
            return ib.get()

        def update():
            ib = tvm.tir.ir_builder.create()
            left, right, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
            with ib.for_range(0, m) as i:
                with ib.for_range(0, m) as j:
                    out[i] = out[i] + left[j] * right[i, j]
            return ib.get()

        return update(), init(), update()

    binds = {
        a: tvm.tir.decl_buffer(a.shape, a.dtype, name="Ab", offset_factor=1, strides=[1]),
        b: tvm.tir.decl_buffer(b.shape, b.dtype, name="Bb", offset_factor=1, strides=[te.var("sb"), 1]),
        c: tvm.tir.decl_buffer(c.shape, c.dtype, name="Cb", offset_factor=1, strides=[1]),
    }
    return te.decl_tensor_intrin(c.op, lowered, binds=binds)


times = gemv(4)
X = te.placeholder((3, 8), name="X")
W = te.placeholder((4, 8), name="W")
r = te.reduce_axis((0, 2), name="r")
Y = te.compute((3, 4), lambda i: times(X[i, r * 4 : r * 4 + 4], W[0:4, r * 4 : r * 4 + 4], reduce_axis=r), name="Y")
f = tvm.build(te.create_schedule(Y.op), [X, W, Y], "llvm")
xs = np.arange(24, dtype="float32").reshape(3, 8)
ws = np.arange(32, dtype="float32").reshape(4, 8) % 5
y = tvm.nd.empty((3, 4))
f(tvm.nd.array(xs), tvm.nd.array(ws), y)
print(np.array_equal(y.numpy(), xs @ ws.T), y.numpy().tolist())
