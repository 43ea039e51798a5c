"""A convolution with padding: inlined, tiled, computed at an inner loop, and cached."""

import numpy as np
import tvm
from tvm import te

size, channels, filters, kernel, pad = 8, 4, 8, 3, 1
A = te.placeholder((size, size, channels), name="A")
W = te.placeholder((kernel, kernel, channels, filters), name="W")
padded = te.compute(
    (size + 2 * pad, size + 2 * pad, channels),
    lambda y, x, c: te.if_then_else(
        te.all(y >= pad, y - pad < size, x >= pad, x - pad < size),
        A[y - pad, x - pad, c],
        tvm.tir.const(0.0, "float32"),
    ),
    name="padded",
)
ry, rx, rc = (te.reduce_axis((0, extent), name) for extent, name in ((kernel, "ry"), (kernel, "rx"), (channels, "rc")))
B = te.compute(
    (size, size, filters),
    lambda y, x, f: te.sum(padded[y + ry, x + rx, rc] * W[ry, rx, rc, f], axis=[ry, rx, rc]),
    name="B",
)
relu = te.compute(B.shape, lambda *i: te.max(B(*i), 0.0), name="relu")


def inlined():
    s = te.create_schedule(relu.op)
    s[padded].compute_inline()
    return s


def tiled():
    s = te.create_schedule(relu.op)
    y, x, f = relu.op.axis
    yo, xo, yi, xi = s[relu].tile(y, x, 4, 4)
    s[relu].reorder(yo, xo, yi, xi, f)
    s[B].compute_at(s[relu], xo)
    s[padded].compute_at(s[relu], yo)
    s[relu].vectorize(f)
    return s


def cached():
    s = te.create_schedule(relu.op)
    s[padded].compute_inline()
    local = s.cache_write(B, "local")
    y, x, f = s[B].op.axis
    s[local].compute_at(s[B], x)
    a, b, c = s[local].op.reduce_axis
    s[local].unroll(a)
    s[local].reorder(a, b, c, *s[local].op.axis)
    WW = s.cache_read(W, "global", [local])
    s[WW].compute_at(s[B], y)
    s[relu].parallel(relu.op.axis[0])
    return s


rng = np.random.RandomState(0)
a, w = rng.rand(size, size, channels).astype("float32"), rng.rand(kernel, kernel, channels, filters).astype("float32")
ref = np.zeros((size, size, filters), "float32")
big = np.pad(a, ((1, 1), (1, 1), (0, 0)))
for i in range(size):
    for j in range(size):
        ref[i, j] = np.tensordot(big[i : i + 3, j : j + 3], w, axes=3)
for make in (inlined, tiled, cached):
    f = tvm.build(make(), [A, W, relu], "llvm", name="conv")
    out = tvm.nd.empty((size, size, filters))
    f(tvm.nd.array(a), tvm.nd.array(w), out)
    np.testing.assert_allclose(out.numpy(), np.maximum(ref, 0), rtol=1e-4)
    print(make.__name__, f.entry_name, out.shape)
