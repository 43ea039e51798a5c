"""Gradients of tensors by reverse mode, compared with differences."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, topi

target = "llvm"


def run(tensors, out, arrays):
    module = tvm.build(te.create_schedule(out.op), tensors + [out], target)
    made = tvm.nd.array(np.zeros([int(d) for d in out.shape], out.dtype))
    module(*[tvm.nd.array(a) for a in arrays], made)
    return made.numpy()


def check(name, out, inputs, low=0.5, high=1.5):
    rng = np.random.RandomState(7)
    arrays = [rng.uniform(low, high, [int(d) for d in t.shape]) for t in inputs]
    ones = topi.full_like(out, 1.0)
    for place, (tensor, grad) in enumerate(zip(inputs, te.gradient(out, inputs, head=ones))):
        ours = run(inputs, grad, arrays)
        differences = np.zeros(ours.shape)
        for at in np.ndindex(ours.shape):
            sides = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[place][at] += sign * 1e-5
                sides.append(run(inputs, out, moved).sum())
            differences[at] = (sides[0] - sides[1]) / 2e-5
        tvm.testing.assert_allclose(ours, differences, rtol=1e-3, atol=1e-5)
        print(name, tensor.name, list(ours.shape), grad.dtype, round(float(ours.sum()), 3))


x = te.placeholder((2, 3), "float64", name="x")
y = te.placeholder((2, 3), "float64", name="y")
check("product", te.compute((2, 3), lambda i, j: x[i, j] * y[i, j] + x[i, j]), [x, y])
check("functions", te.compute((2, 3), lambda i, j: te.exp(x[i, j]) * te.log(y[i, j]) + te.tanh(x[i, j])), [x, y])
check("roots", te.compute((2, 3), lambda i, j: te.sqrt(x[i, j]) + te.sigmoid(y[i, j])), [x, y])
check("neighbours", te.compute((2, 2), lambda i, j: x[i, j] * x[1 - i, j + 1]), [x])
k = te.reduce_axis((0, 3), name="k")
check("sums", te.compute((2,), lambda i: te.sum(x[i, k] * y[i, k], axis=k)), [x, y])
w = te.placeholder((3, 2), "float64", name="w")
k = te.reduce_axis((0, 3), name="k")
product = te.compute((2, 2), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="product")
check("layers", te.compute((2, 2), lambda i, j: te.tanh(product[i, j]) + product[j, i]), [x, w])
data = te.placeholder((6,), "float64", name="data")
kernel = te.placeholder((3,), "float64", name="kernel")
r = te.reduce_axis((0, 3), name="r")
check("window", te.compute((4,), lambda i: te.sum(data[i + r] * kernel[r], axis=r)), [data, kernel])

# without a head it is the Jacobian
z = te.placeholder((3,), "float64", name="z")
square = te.compute((3,), lambda i: z[i] * z[2 - i], name="square")
(jacobian,) = te.gradient(square, [z])
print([int(d) for d in jacobian.shape])
print(run([z], jacobian, [np.array([1.0, 2.0, 5.0])]))
