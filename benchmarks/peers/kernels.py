"""Definitions and schedules that both compilers take, in the names they share. Imported by compile.py on either side.

A compiler is handed in as `c`: `te`, `Schedule`, `block(schedule, name)`, `exp`, `size(name)` and `maximum`.
"""

KERNELS = {}


def kernel(name):
    """Register a function that gives a scheduled function."""

    def register(make):
        KERNELS[name] = make
        return make

    return register


def matmul(c, m, n, depth):
    te = c.te
    a = te.placeholder((m, depth), name="A", dtype="float32")
    b = te.placeholder((depth, n), name="B", dtype="float32")
    k = te.reduce_axis((0, depth), name="k")
    out = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return c.Schedule(te.create_prim_func([a, b, out]))


def tiled(c, m, n, depth, rows=6, cols=16, unrolled=4):
    """A register tile of rows x cols, columns vectorized, in a packed panel."""
    s = matmul(c, m, n, depth)
    block = c.block(s, "C")
    i, j, k = s.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = s.split(i, [None, rows]), s.split(j, [None, cols]), s.split(k, [None, unrolled])
    s.reorder(j0, i0, k0, k1, i1, j1)
    cache = s.cache_write(block, 0, "local")
    s.reverse_compute_at(cache, i0)
    panel = s.cache_read(block, 1, "global")
    s.compute_at(panel, j0)
    for loop in (j1, s.get_loops(cache)[-1], s.get_loops(panel)[-1]):
        s.vectorize(loop)
    s.unroll(i1)
    s.unroll(k1)
    s.parallel(j0)
    s.decompose_reduction(block, k0)
    return s


@kernel("matmul 512, as written")
def matmul_naive(c):
    return matmul(c, 512, 512, 512)


@kernel("matmul 512, tiles 8x16")
def matmul_tiled(c):
    return tiled(c, 512, 512, 512, rows=8)


@kernel("matmul 500x500x501, tiles 6x16 with edges")
def matmul_edges(c):
    return tiled(c, 500, 500, 501)


@kernel("matmul of any size, tiles 8x16")
def matmul_symbolic(c):
    return tiled(c, c.size("m"), c.size("n"), 512, rows=8)


@kernel("matmul 512, tiles 64x64 unrolled by 4")
def matmul_large_tiles(c):
    return tiled(c, 512, 512, 512, rows=64, cols=64)


@kernel("matmul 512, 16384 statements unrolled")
def matmul_unrolled(c):
    """Tiles of 16 x 16 x 64, every multiplication a statement of its own."""
    s = matmul(c, 512, 512, 512)
    block = c.block(s, "C")
    i, j, k = s.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = s.split(i, [None, 16]), s.split(j, [None, 16]), s.split(k, [None, 64])
    s.reorder(i0, j0, k0, k1, i1, j1)
    for loop in (k1, i1, j1):
        s.unroll(loop)
    s.decompose_reduction(block, k0)
    return s


@kernel("conv2d 64x56x56, 3x3, 64 filters")
def conv2d(c):
    te = c.te
    data = te.placeholder((1, 64, 58, 58), name="data", dtype="float32")
    weight = te.placeholder((64, 64, 3, 3), name="weight", dtype="float32")
    rc = te.reduce_axis((0, 64), name="rc")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    out = te.compute(
        (1, 64, 56, 56),
        lambda n, f, y, x: te.sum(data[n, rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    s = c.Schedule(te.create_prim_func([data, weight, out]))
    block = c.block(s, "conv")
    n, f, y, x, rc, ry, rx = s.get_loops(block)
    (f0, f1), (x0, x1) = s.split(f, [None, 4]), s.split(x, [None, 28])
    s.reorder(n, f0, y, x0, rc, ry, rx, f1, x1)
    cache = s.cache_write(block, 0, "local")
    s.reverse_compute_at(cache, x0)
    s.vectorize(x1)
    s.vectorize(s.get_loops(cache)[-1])
    s.unroll(f1)
    s.unroll(rx)
    s.parallel(f0)
    s.decompose_reduction(block, rc)
    return s


@kernel("softmax 1024x1000")
def softmax(c):
    te, shape = c.te, (1024, 1000)
    x = te.placeholder(shape, name="X", dtype="float32")
    k1, k2 = te.reduce_axis((0, shape[1]), name="k1"), te.reduce_axis((0, shape[1]), name="k2")
    top = te.compute(shape[:1], lambda i: te.max(x[i, k1], axis=k1), name="top")
    power = te.compute(shape, lambda i, j: c.exp(x[i, j] - top[i]), name="power")
    total = te.compute(shape[:1], lambda i: te.sum(power[i, k2], axis=k2), name="total")
    out = te.compute(shape, lambda i, j: power[i, j] / total[i], name="out")
    s = c.Schedule(te.create_prim_func([x, out]))
    i, j = s.get_loops(c.block(s, "out"))
    s.parallel(i)
    s.vectorize(s.split(j, [None, 16])[1])
    for name in ("total", "power", "top"):
        s.compute_at(c.block(s, name), i)
    s.vectorize(s.split(s.get_loops(c.block(s, "power"))[-1], [None, 16])[1])
    return s


@kernel("elementwise chain of 8")
def chain(c):
    te, shape = c.te, (1000, 1000)
    x = te.placeholder(shape, name="X", dtype="float32")

    def step_of(value, number):
        return te.compute(
            shape, lambda i, j: c.maximum(value[i, j] * (number + 0.5) + 1.0, 0.25), name=f"step{number}"
        )

    value = x
    for number in range(8):
        value = step_of(value, number)
    s = c.Schedule(te.create_prim_func([x, value]))
    for number in range(7):
        s.compute_inline(c.block(s, f"step{number}"))
    i, j = s.get_loops(c.block(s, "step7"))
    s.parallel(i)
    s.vectorize(s.split(j, [None, 32])[1])
    return s


@kernel("sum of a million, by rfactor")
def reduction(c):
    te, size = c.te, 1 << 20
    x = te.placeholder((size,), name="X", dtype="float32")
    k = te.reduce_axis((0, size), name="k")
    out = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="out")
    s = c.Schedule(te.create_prim_func([x, out]))
    k = s.get_loops(c.block(s, "out"))[-1]
    partial = s.rfactor(s.split(k, [None, 16])[1], 0)
    s.vectorize(s.get_loops(partial)[-1])
    return s
