"""Classic te schedules with the same computation in numpy, shared by several kinds of test.

Every case is a schedule, its arguments (inputs, then outputs) and the same computation in numpy. Sizes that
the tiles do not divide are the rule.
"""

from collections.abc import Callable

import numpy as np

from compiler import topi
from compiler.te import operation as te
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin

Reference = Callable[..., np.ndarray | tuple[np.ndarray, ...]]
Made = tuple[Schedule, list[Tensor], Reference]
CASES: dict[str, Callable[[], Made]] = {}


def case(make: Callable[[], Made]) -> Callable[[], Made]:
    CASES[make.__name__] = make
    return make


def matmul(m: int = 37, n: int = 29, k: int = 23) -> tuple[Schedule, Tensor, Tensor, Tensor]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    kk = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="C")
    return create_schedule(c.op), a, b, c


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b


# --------------------------------------------------------------------------- matrix product


@case
def as_written() -> Made:
    s, a, b, c = matmul(5, 4, 3)
    return s, [a, b, c], product


@case
def blocked() -> Made:
    s, a, b, c = matmul()
    xo, yo, xi, yi = s[c].tile(*c.op.axis, 8, 16)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(xo, yo, ko, ki, xi, yi)
    return s, [a, b, c], product


@case
def blocked_and_vectorized() -> Made:
    s, a, b, c = matmul()
    xo, yo, xi, yi = s[c].tile(*c.op.axis, 8, 16)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(xo, yo, ko, xi, ki, yi)
    s[c].vectorize(yi)
    s[c].unroll(xi)
    return s, [a, b, c], product


@case
def reduction_outermost() -> Made:
    s, a, b, c = matmul(6, 5, 7)
    s[c].reorder(c.op.reduce_axis[0], *c.op.axis)
    s[c].vectorize(c.op.axis[1])
    return s, [a, b, c], product


@case
def fused_and_parallel() -> Made:
    s, a, b, c = matmul()
    xo, yo, xi, yi = s[c].tile(*c.op.axis, 8, 16)
    s[c].parallel(s[c].fuse(xo, yo))
    s[c].unroll(s[c].fuse(xi, yi))
    return s, [a, b, c], product


@case
def split_by_parts() -> Made:
    s, a, b, c = matmul()
    xo, _xi = s[c].split(c.op.axis[0], nparts=5)
    _ko, ki = s[c].split(c.op.reduce_axis[0], nparts=4)
    yo, yi = s[c].split(c.op.axis[1], factor=100)  # more than there are
    s[c].reorder(xo, yo, ki, yi)
    return s, [a, b, c], product


@case
def written_through_a_cache() -> Made:
    s, a, b, c = matmul()
    cached = s.cache_write(c, "global")
    _mo, no, _mi, _ni = s[c].tile(*c.op.axis, 8, 16)
    s[cached].compute_at(s[c], no)
    mc, nc = s[cached].op.axis
    ko, ki = s[cached].split(s[cached].op.reduce_axis[0], factor=4)
    s[cached].reorder(ko, mc, ki, nc)
    s[cached].unroll(ki)
    s[cached].vectorize(nc)
    return s, [a, b, c], product


@case
def read_through_caches() -> Made:
    s, a, b, c = matmul()
    acc = s.cache_write(c, "local")
    a_near, b_near = s.cache_read(a, "local", [acc]), s.cache_read(b, "local", [acc])
    _xo, yo, _xi, yi = s[c].tile(*c.op.axis, 8, 16)
    s[c].vectorize(yi)
    s[acc].compute_at(s[c], yo)
    xa, ya = s[acc].op.axis
    ko, ki = s[acc].split(s[acc].op.reduce_axis[0], factor=5)
    s[acc].reorder(ko, ki, xa, ya)
    s[acc].vectorize(ya)
    s[a_near].compute_at(s[acc], ko)
    s[b_near].compute_at(s[acc], ki)
    s[b_near].vectorize(s[b_near].op.axis[1])
    return s, [a, b, c], product


@case
def packed_cached_and_parallel() -> Made:
    m, n, k, tile = 24, 32, 20, 8
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    kk = te.reduce_axis((0, k), name="k")
    packed = te.compute((n / tile, k, tile), lambda bigN, k, littleN: b[k, bigN * tile + littleN], name="packedB")
    c = te.compute(
        (m, n), lambda i, j: te.sum(a[i, kk] * packed[j // tile, kk, ops.floormod(j, tile)], axis=kk), name="C"
    )
    s = create_schedule(c.op)
    cached = s.cache_write(c, "global")
    mo, no, _mi, _ni = s[c].tile(*c.op.axis, tile, tile)
    s[cached].compute_at(s[c], no)
    mc, nc = s[cached].op.axis
    ko, ki = s[cached].split(s[cached].op.reduce_axis[0], factor=4)
    s[cached].reorder(ko, mc, ki, nc)
    s[cached].vectorize(nc)
    s[cached].unroll(ki)
    x, _y, z = s[packed].op.axis
    s[packed].vectorize(z)
    s[packed].parallel(x)
    s[c].parallel(mo)
    return s, [a, b, c], product


# ------------------------------------------------------------------------------ convolution


def conv2d(data: np.ndarray, weight: np.ndarray, stride: int, padding: int) -> np.ndarray:
    data = np.pad(data, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    rows, cols = weight.shape[2:]
    out_h, out_w = ((size - window) // stride + 1 for size, window in zip(data.shape[2:], (rows, cols)))
    out = np.zeros((data.shape[0], weight.shape[0], out_h, out_w), data.dtype)
    for r in range(rows):
        for c in range(cols):
            part = data[:, :, r : r + out_h * stride : stride, c : c + out_w * stride : stride]
            out += np.einsum("nchw,kc->nkhw", part, weight[:, :, r, c])
    return out


def convolution(stride: int) -> tuple[Schedule, Tensor, Tensor, Tensor, Tensor]:
    data, weight = te.placeholder((1, 3, 9, 11), name="data"), te.placeholder((5, 3, 3, 3), name="weight")
    out = topi.nn.conv2d_nchw(data, weight, stride, 1, 1)
    return create_schedule(out.op), data, weight, out.op.input_tensors[0], out


@case
def conv_pads_where_it_reads() -> Made:
    s, data, weight, padded, out = convolution(1)
    n, f, y, x = out.op.axis
    rc, ry, rx = out.op.reduce_axis
    fo, fi = s[out].split(f, factor=2)
    xo, xi = s[out].split(x, factor=4)
    s[out].reorder(n, fo, y, xo, rc, ry, rx, fi, xi)
    s[out].vectorize(xi)
    s[out].parallel(fo)
    s[padded].compute_at(s[out], xo)
    _n, _c, _y, px = s[padded].op.axis
    _po, pi = s[padded].split(px, factor=4)
    s[padded].vectorize(pi)
    return s, [data, weight, out], lambda d, w: conv2d(d, w, 1, 1)


@case
def conv_with_stride_and_inlined_pad() -> Made:
    s, data, weight, padded, out = convolution(2)
    s[padded].compute_inline()
    _n, _f, y, x = out.op.axis
    s[out].tile(y, x, 2, 3)
    return s, [data, weight, out], lambda d, w: conv2d(d, w, 2, 1)


@case
def conv_with_write_cache_and_relu() -> Made:
    s0, data, weight, padded, out = convolution(1)
    assert s0.outputs == (out.op,)
    relu = topi.nn.relu(out)
    s = create_schedule(relu.op)
    s[padded].compute_inline()
    n, f, y, x = relu.op.axis
    xo, xi = s[relu].split(x, factor=4)
    s[relu].reorder(n, f, y, xo, xi)
    s[relu].vectorize(xi)
    s[out].compute_at(s[relu], xo)
    s[out].set_scope("local")
    rc, ry, rx = s[out].op.reduce_axis
    s[out].reorder(rc, ry, rx, *s[out].op.axis)
    s[out].vectorize(s[out].op.axis[3])
    return s, [data, weight, relu], lambda d, w: np.maximum(conv2d(d, w, 1, 1), 0)


# ------------------------------------------------------------------- chains and reductions


def chain() -> tuple[Schedule, list[Tensor]]:
    a = te.placeholder((19,), name="A")
    b = te.compute((19,), lambda i: a[i] + 1, name="B")
    c = te.compute((19,), lambda i: b[i] * 2, name="C")
    d = te.compute((19,), lambda i: intrin.exp(c[i]) - b[i], name="D")
    return create_schedule(d.op), [a, b, c, d]


def chained(a: np.ndarray) -> np.ndarray:
    return np.exp((a + 1) * 2) - (a + 1)


@case
def chain_inlined() -> Made:
    s, (a, b, c, d) = chain()
    s[b].compute_inline()
    s[c].compute_inline()
    _o, i = s[d].split(d.op.axis[0], factor=8)
    s[d].vectorize(i)
    return s, [a, d], chained


@case
def chain_attached() -> Made:
    s, (a, b, c, d) = chain()
    outer, _inner = s[d].split(d.op.axis[0], factor=4)
    s[b].compute_at(s[d], outer)
    s[c].compute_at(s[d], outer)
    s[c].vectorize(s[c].op.axis[0])
    return s, [a, d], chained


@case
def chain_attached_to_attached() -> Made:
    a = te.placeholder((20,), name="A")
    b = te.compute((20,), lambda i: a[i] + 1, name="B")
    c = te.compute((18,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    d = te.compute((17,), lambda i: c[i] * c[i + 1], name="D")
    s = create_schedule(d.op)
    outer, _inner = s[d].split(d.op.axis[0], factor=5)
    s[c].compute_at(s[d], outer)
    c_outer, _c_inner = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], c_outer)

    def reference(x: np.ndarray) -> np.ndarray:
        y = x[:-2] + x[1:-1] + x[2:] + 3
        return y[:-1] * y[1:]

    return s, [a, d], reference


@case
def row_sum_by_rfactor() -> Made:
    a = te.placeholder((6, 29), name="A")
    k = te.reduce_axis((0, 29), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b.op)
    _ko, ki = s[b].split(k, factor=8)
    partial = s.rfactor(b, ki)
    s[partial].reorder(*s[partial].op.reduce_axis, *s[partial].op.axis)
    s[partial].parallel(s[partial].op.axis[0])
    return s, [a, b], lambda x: x.sum(axis=1)


@case
def softmax_rows_together() -> Made:
    x = te.placeholder((7, 10), name="X")
    out = topi.nn.softmax(x)
    s = create_schedule(out.op)
    powers, total = out.op.input_tensors
    (_x, largest) = powers.op.input_tensors
    row = out.op.axis[0]
    for stage in (total, powers, largest):
        s[stage].compute_at(s[out], row)
    s[out].parallel(row)

    def reference(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return s, [x, out], reference


@case
def reduced_axis_not_from_zero() -> Made:
    a = te.placeholder((30,), name="A")
    k = te.reduce_axis((3, 11), name="k")
    b = te.compute((13,), lambda i: te.sum(a[i + k], axis=k, where=k < 12), name="B")
    s = create_schedule(b.op)
    s[b].split(k, factor=4)
    s[b].split(b.op.axis[0], factor=5)
    return s, [a, b], lambda x: np.array([x[i + 3 : i + 12].sum() for i in range(13)], x.dtype)


@case
def two_outputs_of_one_operation() -> Made:
    a = te.placeholder((19,), name="A")
    low, high = te.compute((19,), lambda i: (a[i] - 1, a[i] + 1), name="B")
    s = create_schedule(low.op)
    _o, i = s[low].split(low.op.axis[0], factor=4)
    s[low].unroll(i)
    return s, [a, low, high], lambda x: (x - 1, x + 1)


@case
def argmax_of_rows() -> Made:
    index, value = te.placeholder((5, 11), "int32", name="I"), te.placeholder((5, 11), name="V")
    argmax = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), ops.maximum(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), ops.min_value(t1)),
    )
    k = te.reduce_axis((0, 11), "k")
    first, second = te.compute((5,), lambda i: argmax((index[i, k], value[i, k]), axis=k), name="T")
    s = create_schedule(first.op)
    s[first].split(k, factor=4)
    return (
        s,
        [index, value, first, second],
        lambda i, v: (np.take_along_axis(i, v.argmax(axis=1)[:, None], 1)[:, 0], v.max(axis=1)),
    )


# -------------------------------------------------------------------------------------- run


def inputs_of(args: list[Tensor], schedule: Schedule) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(random inputs, outputs filled with a mark) for `args`."""
    rng = np.random.default_rng(0)
    given, made = [], []
    for tensor in args:
        shape = tuple(ops.as_int(d) for d in tensor.shape)
        if tensor.op.input_tensors:
            made.append(np.full(shape, 77, tensor.dtype))
        elif tensor.dtype.startswith("int"):
            given.append(rng.integers(0, 100, shape).astype(tensor.dtype))
        else:
            given.append(rng.standard_normal(shape).astype(tensor.dtype))
    return given, made


def check(made: list[np.ndarray], expected: np.ndarray | tuple[np.ndarray, ...]) -> None:
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(made, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
