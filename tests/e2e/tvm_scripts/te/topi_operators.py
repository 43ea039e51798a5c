"""Operators of topi in te programs."""

import numpy as np
import tvm
from tvm import te, topi

rng = np.random.RandomState(1)
x = rng.rand(3, 4).astype("float32")
A = te.placeholder((3, 4), name="A")


def run(tensor, *arrays):
    s = te.create_schedule(tensor.op)
    inputs = [A]
    f = tvm.build(s, [*inputs, tensor], "llvm")
    out = tvm.nd.empty([int(d) for d in tensor.shape], tensor.dtype)
    f(tvm.nd.array(x), out)
    return out.numpy()


def close(tensor, expected):
    got = run(tensor)
    print(got.shape, got.dtype, np.allclose(got, expected, rtol=1e-4, atol=1e-5))


close(topi.sum(A, axis=1), x.sum(1))
close(topi.max(A, axis=0, keepdims=True), x.max(0, keepdims=True))
close(topi.argmax(A, axis=1), x.argmax(1))
close(topi.exp(A), np.exp(x))
close(topi.transpose(A, (1, 0)), x.T)
close(topi.reshape(A, (2, 6)), x.reshape(2, 6))
close(topi.expand_dims(A, 0), x[None])
close(topi.concatenate([A, A], axis=1), np.concatenate([x, x], 1))
close(topi.nn.relu(A - 0.5), np.maximum(x - 0.5, 0))
close(topi.nn.softmax(A, axis=1), np.exp(x) / np.exp(x).sum(1, keepdims=True))
close(topi.broadcast_to(A, (2, 3, 4)), np.broadcast_to(x, (2, 3, 4)))
close(topi.strided_slice(A, [0, 1], [3, 4], [1, 2]), x[:, 1:4:2])
close(topi.cast(A * 10.0, "int32"), (x * 10).astype("int32"))
close(topi.clip(A, 0.2, 0.6), np.clip(x, 0.2, 0.6))
close(topi.mean(A, axis=[0, 1]) if hasattr(topi, "mean") else topi.sum(A) / 12.0, x.mean())
