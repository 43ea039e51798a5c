"""A convolution in parts: padding inlined, a cache for the output, stages computed where they are read."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, tir

H = W = 8
CI, CO, K = 4, 6, 3
data = te.placeholder((CI, H, W), name="data")
weight = te.placeholder((CO, CI, K, K), name="weight")
pad = te.compute(
    (CI, H + 2, W + 2),
    lambda c, y, x: te.if_then_else(te.all(y >= 1, y < H + 1, x >= 1, x < W + 1), data[c, y - 1, x - 1], 0.0),
    name="pad",
)
rc, ry, rx = te.reduce_axis((0, CI), "rc"), te.reduce_axis((0, K), "ry"), te.reduce_axis((0, K), "rx")
conv = te.compute(
    (CO, H, W), lambda o, y, x: te.sum(pad[rc, y + ry, x + rx] * weight[o, rc, ry, rx], axis=[rc, ry, rx]), name="conv"
)
relu = te.compute(conv.shape, lambda *i: tir.max(conv(*i), tir.const(0, "float32")), name="relu", tag="elemwise")
print(relu.op.tag, [int(d) for d in conv.shape], len(conv.op.reduce_axis))

a = np.random.RandomState(0).randn(CI, H, W).astype("float32")
w = np.random.RandomState(1).randn(CO, CI, K, K).astype("float32")
padded = np.pad(a, ((0, 0), (1, 1), (1, 1)))
ref = np.zeros((CO, H, W), "float32")
for dy in range(K):
    for dx in range(K):
        ref += np.einsum("chw,oc->ohw", padded[:, dy : dy + H, dx : dx + W], w[:, :, dy, dx])
ref = np.maximum(ref, 0)


def check(name, s):
    f = tvm.build(s, [data, weight, relu], "llvm")
    out = tvm.nd.empty((CO, H, W))
    f(tvm.nd.array(a), tvm.nd.array(w), out)
    tvm.testing.assert_allclose(out.numpy(), ref, rtol=1e-4, atol=1e-4)
    print(name, "ok")


check("plain", te.create_schedule(relu.op))

s = te.create_schedule(relu.op)
s[pad].compute_inline()
o, y, x = s[relu].op.axis
s[conv].compute_at(s[relu], y)
xo, xi = s[relu].split(x, factor=4)
s[relu].vectorize(xi)
s[relu].parallel(o)
check("inlined", s)

s = te.create_schedule(relu.op)
o, y, x = s[relu].op.axis
oy = s[relu].fuse(o, y)
s[conv].compute_at(s[relu], oy)
s[pad].compute_root()
co, cy, cx = s[conv].op.axis
ci, kh, kw = s[conv].op.reduce_axis
s[conv].reorder(ci, kh, kw, co, cy, cx)
s[conv].unroll(kw)
check("attached", s)

s = te.create_schedule(relu.op)
cached = s.cache_read(pad, "global", [conv])
print(cached.op.name, [int(d) for d in cached.shape])
s[cached].compute_at(s[conv], s[conv].op.axis[0])
check("cached", s)
print(len(s.stages), s[relu].op is relu.op, relu.op.input_tensors[0].op.name)
