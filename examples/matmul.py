"""Schedule a matrix product by hand, and see what each step brings."""

import numpy as np

import tunefarm as tvm
from tunefarm import te

M = N = K = 256


def define():
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def untouched(C):
    return te.create_schedule(C.op)


def vectorised(C):
    """The reduction outside a vector of columns."""
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    jo, ji = s[C].split(j, factor=16)
    s[C].reorder(i, jo, k, ji)
    s[C].vectorize(ji)
    return s


def register_tile(C):
    """A 4 x 16 tile of the result stays in registers while the reduction runs."""
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    i, j = s[C].op.axis
    io, jo, _, ji = s[C].tile(i, j, 4, 16)
    s[acc].compute_at(s[C], jo)
    ia, ja = s[acc].op.axis
    (ka,) = s[acc].op.reduce_axis
    s[acc].reorder(ka, ia, ja)
    s[acc].unroll(ia)
    s[acc].vectorize(ja)
    s[C].vectorize(ji)
    s[C].parallel(io)
    return s


def main():
    dev = tvm.cpu(0)
    rng = np.random.default_rng(0)
    a = tvm.nd.array(rng.random((M, K), dtype="float32"), dev)
    b = tvm.nd.array(rng.random((K, N), dtype="float32"), dev)
    c = tvm.nd.empty((M, N), "float32", dev)
    for schedule in (untouched, vectorised, register_tile):
        A, B, C = define()
        module = tvm.build(schedule(C), [A, B, C], target="llvm", name="matmul")
        module(a, b, c)
        np.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-4)
        result = module.time_evaluator("matmul", dev, number=3, repeat=5)(a, b, c)
        print(f"{schedule.__name__:14} {2 * M * N * K / result.median / 1e9:7.2f} GFLOP/s")


if __name__ == "__main__":
    main()
