"""Operators, tags, slices and results of te."""

import numpy as np
import tvm
from tvm import te, tir, topi


def run(args, out, *values):
    s = te.create_schedule(out.op)
    f = tvm.build(s, [*args, out], "llvm")
    shape = [int(d) for d in out.shape]
    r = tvm.nd.array(np.zeros(shape, out.dtype))
    f(*[tvm.nd.array(v) for v in values], r)
    return r.numpy().tolist()


A = te.placeholder((4,), name="A")
B = te.placeholder((4,), name="B")
x = np.array([1, 2, 3, 4], "float32")
y = np.array([4, 3, 2, 1], "float32")
for op in (
    lambda a, b: a + b,
    lambda a, b: a - 1,
    lambda a, b: 2 * a,
    lambda a, b: a / b,
    lambda a, b: topi.maximum(a, b),
    lambda a, b: topi.power(a, 2),
    lambda a, b: -a,
    lambda a, b: topi.greater(a, b),
    lambda a, b: topi.exp(a) * 0 + b,
):
    print(run([A, B], op(A, B), x, y))
with te.tag_scope(tag="outer"):
    C = te.compute((4,), lambda i: A[i] + B[i], name="C")
print(C.op.tag, (A + B).op.tag, te.compute((4,), lambda i: A[i], tag="t").op.tag)
try:
    with te.tag_scope(tag="one"):
        with te.tag_scope(tag="two"):
            pass
    print("nested")
except ValueError:
    print("no scope in a scope")
I = te.placeholder((4,), "int32", name="I")
for op in (lambda a: a // 3, lambda a: a % 3, lambda a: a << 1, lambda a: a & 1, lambda a: a - 2):
    print(run([I], te.compute((4,), lambda i: op(I[i])), np.array([-4, 5, 6, 7], "int32")))
k = te.reduce_axis((0, 4), "k")
for red in (te.sum, te.max, te.min):
    print(run([A], te.compute((1,), lambda i: red(A[k], axis=k)), x))
prod = te.comm_reducer(lambda a, b: a * b, lambda t: tir.const(1, t), name="prod")
print(run([A], te.compute((1,), lambda i: prod(A[k], axis=k)), x))
print(run([A], te.compute((1,), lambda i: te.sum(A[k], axis=k, where=k > 1)), x))
m = te.placeholder((2, 3), name="m")
print(m[0].dtype, m[1][2].dtype, m.ndim, m.name, m.op.name, m.shape[1], m(0, 1).dtype, str(m.dtype))
D = te.compute((3, 2), lambda i, j: m[j, i], name="D")
print(run([m], D, np.arange(6, dtype="float32").reshape(2, 3)), D.op.axis[0].var.name, len(D.op.reduce_axis))
E1, E2 = te.compute((4,), lambda i: (A[i] + 1.0, A[i] * 3.0), name="E")
print(E1.op.num_outputs, E1.value_index, E2.value_index, E1.op.same_as(E2.op), [t.dtype for t in (E1, E2)])
print(
    te.any(I[0] > 1, I[1] > 2).dtype,
    te.all(I[0] > 1).dtype,
    te.const(3, "int8").value,
    te.size_var("n").dtype,
    te.var("v", "int64").dtype,
)
print(te.max_value("int8").value, te.min_value("uint8").value, te.abs(te.const(-3)).dtype)
