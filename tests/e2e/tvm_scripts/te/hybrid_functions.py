"""Hybrid functions: operations written as Python, run as such and compiled."""

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.te import hybrid

target = "llvm"


@te.hybrid.script
def outer_product(a, b):
    """The product of every element of a with every one of b."""
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@hybrid.script
def fan_out(a):
    b = output_tensor((a.shape[0] - 3,), a.dtype)
    for i in range(a.shape[0] - 3):
        sigma = 0.0
        for j in range(3):
            sigma += a[i + j]
        sigma = sigma / 3.0
        b[i] = sigma
    return b


@hybrid.script
def kinds_of_loops(a, b):
    c = output_tensor((16,), "int32")
    d = output_tensor((16,), "int32")
    for i in parallel(8):
        c[i] = a[i] + b[i]
    for j in vectorize(8, 16):
        c[j] = a[j] * 2
    for k in unroll(4):
        for m in range(4):
            d[k * 4 + m] = c[k * 4 + m] - b[m]
    return c, d


@hybrid.script
def non_zero_corner(a):
    b = output_tensor(a.shape, a.dtype)
    m = a.shape[0]
    n = a.shape[1]
    for i in range(m):
        for j in range(n):
            if i >= m - 2 or j >= n - 2:
                b[i, j] = a[i, j]
            else:
                if a[i, j] > 0.0 and i != j:
                    b[i, j] = sqrt(a[i, j])
                else:
                    b[i, j] = float32(i) + exp(-max(a[i, j], float32(0)))
    return b


@hybrid.script
def sum_of_tensors(inputs):
    out = output_tensor(inputs[0].shape, inputs[0].dtype)
    n = inputs[0].shape[0]
    for i in range(n):
        for j in const_range(3):
            out[i] = out[i] + inputs[j][i] if j > 0 else inputs[j][i]
    return out


def check(func, *arrays):
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"t{i}") for i, a in enumerate(arrays)]
    found = func(*tensors)
    outs = [found] if isinstance(found, te.Tensor) else list(found)
    expected = func(*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    s = te.create_schedule(outs[0].op)
    module = tvm.build(s, tensors + outs, target)
    made = [tvm.nd.array(np.zeros(e.shape, e.dtype)) for e in expected]
    module(*[tvm.nd.array(a) for a in arrays], *made)
    for ours, theirs in zip(made, expected):
        tvm.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5)
    op = outs[0].op
    print(op.name, type(op).__name__, op.num_outputs, [[int(d) for d in t.shape] for t in outs], [t.dtype for t in outs])
    print([round(float(e.sum()), 2) for e in expected])


a = np.arange(1, 6).astype("float32")
b = np.arange(3).astype("float32")
check(outer_product, a, b)
check(fan_out, np.arange(10).astype("float32"))
check(kinds_of_loops, np.arange(16).astype("int32"), np.arange(16).astype("int32") % 3)
check(non_zero_corner, (np.arange(30).reshape(5, 6) % 7 - 3).astype("float32"))
print(outer_product.__name__, outer_product.__doc__)

# a stage among others
x = te.placeholder((5,), name="x")
twice = te.compute((5,), lambda i: x[i] * 2, name="twice")
product = outer_product(twice, x)
total = te.compute((5, 5), lambda i, j: product[i, j] + 1, name="total")
module = tvm.build(te.create_schedule(total.op), [x, total], target)
out = tvm.nd.array(np.zeros((5, 5), "float32"))
module(tvm.nd.array(a), out)
tvm.testing.assert_allclose(out.numpy(), np.outer(a * 2, a) + 1, rtol=1e-5)
print([t.name for t in product.op.input_tensors])

# sizes that are known when it is called
n, m = te.var("n"), te.var("m")
u, v = te.placeholder((n,), name="u"), te.placeholder((m,), name="v")
w = outer_product(u, v)
module = tvm.build(te.create_schedule(w.op), [u, v, w], target)
for rows, columns in ((2, 3), (7, 1)):
    left, right = np.random.rand(rows).astype("float32"), np.random.rand(columns).astype("float32")
    out = tvm.nd.array(np.zeros((rows, columns), "float32"))
    module(tvm.nd.array(left), tvm.nd.array(right), out)
    tvm.testing.assert_allclose(out.numpy(), np.outer(left, right), rtol=1e-5)

# what is no hybrid function
source = """
def broken(a):
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        b[i] = unheard_of(a[i])
    return b
"""
try:
    te.hybrid.source_to_op(source, [x], {}, {})
    print("taken")
except Exception as error:
    print("refused", isinstance(error, Exception))
text = """
def added(a, b):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]
    return c
"""
c = te.hybrid.source_to_op(text, [x, twice], {}, {})
module = tvm.build(te.create_schedule(c.op), [x, c], target)
out = tvm.nd.array(np.zeros(5, "float32"))
module(tvm.nd.array(a), out)
print(out.numpy())

# a schedule as the text of a hybrid function
A = te.placeholder((10, 10), name="A")
B = te.placeholder((10, 10), name="B")
k = te.reduce_axis((0, 10), name="k")
C = te.compute((10, 10), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
s = te.create_schedule(C.op)
i, j = C.op.axis
outer, inner = s[C].split(i, 5)
s[C].unroll(inner)
module = te.hybrid.build(s, [A, B], [C], name="product")
left, right = np.random.rand(10, 10).astype("float32"), np.random.rand(10, 10).astype("float32")
tvm.testing.assert_allclose(module(left, right), left @ right, rtol=1e-4)
print("def product(" in module.get_source())
