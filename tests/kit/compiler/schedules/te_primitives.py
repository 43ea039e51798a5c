"""More te schedules with the same computation in numpy: the primitives beyond loops and caches, operations written by
hand, reducers of several values. Importing this module adds them to `te_schedules.CASES`."""

import numpy as np

from compiler.te import operation as te
from compiler.te.extern import extern
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import Tensor
from compiler.te.tensor_intrin import TensorIntrin, decl_tensor_intrin
from compiler.tir import ir_builder, ops
from tests.kit.compiler.schedules import te_scans as _te_scans  # noqa: F401  (adds its cases)
from tests.kit.compiler.schedules.te import CASES, Made, case, matmul, product

__all__ = ["CASES"]


def rows(depth: int = 2) -> tuple[Schedule, list[Tensor]]:
    """A + 1, times 2, minus 3: `depth` of these one after another, on (21, 18) elements."""
    tensors = [te.placeholder((21, 18), name="A")]
    steps = [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: x - 3.0]
    for name, step in zip("BCD"[:depth], steps):
        before = tensors[-1]
        tensors.append(te.compute((21, 18), lambda i, j, x=before, f=step: f(x[i, j]), name=name))
    return create_schedule(tensors[-1].op), tensors


def doubled(a: np.ndarray) -> np.ndarray:
    return (a + 1) * 2


# ------------------------------------------------------------------------------------ storage


@case
def stored_outside_the_loop_it_is_computed_at() -> Made:
    s, (a, b, c) = rows()
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], inner)
    s[b].store_at(s[c], outer)
    return s, [a, c], doubled


@case
def stored_where_a_predicate_holds() -> Made:
    s, (a, b, c) = rows()
    spare, j = s[b].fuse(), b.op.axis[1]
    jo, _ji = s[b].split(j, factor=4)
    s[b].set_store_predicate((b.op.axis[0].var >= 0).astype("bool") & (jo.var < 5) & spare.var.equal(0))
    return s, [a, c], doubled


@case
def reduction_stored_where_a_predicate_holds() -> Made:
    s, a, b, c = matmul(5, 6, 7)
    _ko, _ki = s[c].split(c.op.reduce_axis[0], factor=3)
    s[c].set_store_predicate(c.op.axis[0].var < 5)
    return s, [a, b, c], product


@case
def rows_padded_for_alignment() -> Made:
    s, (a, b, c) = rows()
    s[b].storage_align(b.op.axis[0], 8, 1)
    s[b].double_buffer()
    return s, [a, c], doubled


@case
def fetched_ahead() -> Made:
    s, (a, b, c) = rows()
    s[b].compute_inline()
    outer, _inner = s[c].split(c.op.axis[0], factor=4)
    s[c].prefetch(a, outer, 2)
    return s, [a, c], doubled


@case
def pragma_unrolls() -> Made:
    s, (a, b, c) = rows()
    s[b].compute_inline()
    s[c].pragma(c.op.axis[0], "auto_unroll_max_step", 16)
    return s, [a, c], doubled


# ------------------------------------------------------------------------------------- groups


@case
def a_group_computed_at_a_loop() -> Made:
    s, (a, b, c, d) = rows(3)
    group = s.create_group(outputs=c, inputs=a)
    outer, _inner = s[d].split(d.op.axis[0], factor=8)
    group.compute_at(s[d], outer)
    s[c].vectorize(c.op.axis[1])
    assert s[b].group is s[c].group is group
    return s, [a, d], lambda x: doubled(x) - 3


@case
def a_member_of_a_group_placed_by_itself() -> Made:
    s, (a, _b, c, d) = rows(3)
    group = s.create_group(outputs=c, inputs=a)
    outer, inner = s[d].split(d.op.axis[0], factor=8)
    group.compute_at(s[d], outer)
    s[c].compute_at(s[d], inner)
    return s, [a, d], lambda x: doubled(x) - 3


# ------------------------------------------------------------------- reducers of several values


def argmax_pair() -> tuple[Tensor, Tensor, list[Tensor]]:
    index, value = te.placeholder((5, 13), "int32", name="I"), te.placeholder((5, 13), name="V")
    argmax = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), ops.maximum(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), ops.min_value(t1)),
        name="argmax",
    )
    k = te.reduce_axis((0, 13), "k")
    return index, value, te.compute((5,), lambda i: argmax((index[i, k], value[i, k]), axis=k), name="T")


def largest(index: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.take_along_axis(index, value.argmax(axis=1)[:, None], 1)[:, 0], value.max(axis=1)


@case
def argmax_by_rfactor() -> Made:
    index, value, (first, second) = argmax_pair()
    s = create_schedule(first.op)
    _ko, ki = s[first].split(first.op.reduce_axis[0], factor=4)
    at, most = s.rfactor(first, ki)
    assert (at.dtype, most.dtype) == ("int32", "float32")
    s[at].parallel(s[at].op.axis[0])
    return s, [index, value, first, second], largest


@case
def argmax_written_through_a_cache() -> Made:
    index, value, (first, second) = argmax_pair()
    s = create_schedule(first.op)
    cached = s[first].cache_write("local")
    outer, _inner = s[first].split(first.op.axis[0], factor=2)
    s[cached[0]].compute_at(s[first], outer)
    s[cached[0]].split(s[cached[0]].op.reduce_axis[0], factor=5)
    return s, [index, value, first, second], largest


@case
def product_and_sum_together() -> Made:
    a = te.placeholder((4, 9), name="A")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda t0, t1: (te.const(0, t0), te.const(1, t1)), name="both"
    )
    k = te.reduce_axis((0, 9), "k")
    total, times = te.compute((4,), lambda i: both((a[i, k], a[i, k]), axis=k, where=k > 0), name="T")
    s = create_schedule(total.op)
    s[total].reorder(k, total.op.axis[0])
    s[total].vectorize(total.op.axis[0])
    return s, [a, total, times], lambda x: (x[:, 1:].sum(axis=1), x[:, 1:].prod(axis=1))


@case
def rfactor_on_the_stage() -> Made:
    a = te.placeholder((3, 22), name="A")
    k = te.reduce_axis((0, 22), name="k")
    b = te.compute((3,), lambda i: te.max(a[i, k], axis=k), name="B")
    s = create_schedule(b.op)
    ko, _ki = s[b].split(k, nparts=4)
    partial = s[b].rfactor(ko, 1)
    s[partial].compute_at(s[b], s[b].op.axis[0])
    return s, [a, b], lambda x: x.max(axis=1)


# --------------------------------------------------------------------------- written by hand


def running_sum(ins, outs):
    """Sums along rows, kept in a temporary."""
    height, width = (ops.as_int(size) for size in ins[0].shape)
    ib = ir_builder.create()
    x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    total = ib.allocate("float32", (1,), "total")
    with ib.for_range(0, height, "r") as r:
        total[0] = 0.0
        with ib.for_range(0, width, "c") as c:
            total[0] = total[0] + x[r, c]
            y[r * width + c] = total[0]
    return ib.get()


@case
def extern_between_two_stages() -> Made:
    a = te.placeholder((5, 7), name="A")
    b = te.compute((5, 7), lambda i, j: a[i, j] * 2, name="B")
    c = extern((5, 7), [b], running_sum, name="C")
    d = te.compute((5, 7), lambda i, j: c[i, j] + 1, name="D")
    s = create_schedule(d.op)
    s[d].split(d.op.axis[1], factor=3)
    s[b].vectorize(b.op.axis[1])
    return s, [a, d], lambda x: np.cumsum(x * 2, axis=1) + 1


@case
def extern_with_two_outputs_and_a_cached_input() -> Made:
    def split_signs(ins, outs):
        ib = ir_builder.create()
        x, low, high = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        with ib.for_range(0, 11, "i", kind="parallel") as i:
            value = ib.let("value", x[i])
            with ib.if_scope(value < 0.0):
                low[i], high[i] = value, 0.0
            with ib.else_scope():
                low[i], high[i] = 0.0, value
        return ib.get()

    a = te.placeholder((11,), name="A")
    low, high = extern([(11,), (11,)], [a], split_signs, name="signs")
    s = create_schedule(low.op)
    s.cache_read(a, "global", [low])
    return s, [a, low, high], lambda x: (np.minimum(x, 0), np.maximum(x, 0))


# ---------------------------------------------------------------------------- tensor intrinsics


def gemm(m: int, n: int, k: int, halves: bool = True) -> TensorIntrin:
    """A small matrix product by hand; with `halves` also its init and its update alone."""
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    kk = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="c")

    def by_hand(ins, outs):
        def loops(reset: bool, update: bool):
            ib = ir_builder.create()
            x, y, z = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
            with ib.for_range(0, m, "ii") as i, ib.for_range(0, n, "jj", kind="vectorized") as j:
                if reset:
                    z[i, j] = 0.0
                if update:
                    with ib.for_range(0, k, "kk", kind="unroll") as step:
                        z[i, j] = z[i, j] + x[i, step] * y[step, j]
            return ib.get()

        whole = loops(True, True)
        return (whole, loops(True, False), loops(False, True)) if halves else whole

    return decl_tensor_intrin(c.op, by_hand, name="gemm")


@case
def tensorized_in_two_halves() -> Made:
    s, a, b, c = matmul(12, 8, 10)
    xo, yo, xi, yi = s[c].tile(*c.op.axis, 4, 4)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=5)
    s[c].reorder(xo, yo, ko, xi, yi, ki)
    s[c].tensorize(xi, gemm(4, 4, 5))
    s[c].parallel(xo)
    return s, [a, b, c], product


@case
def tensorized_whole() -> Made:
    s, a, b, c = matmul(12, 9, 7)
    _xo, _yo, xi, _yi = s[c].tile(*c.op.axis, 6, 3)
    s[c].tensorize(xi, gemm(6, 3, 7, halves=False))
    return s, [a, b, c], product


@case
def tensorized_into_a_cache_with_an_elementwise_intrinsic_behind() -> Made:
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i], name="y")

    def copy(ins, outs):
        ib = ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, "lane", kind="vectorized") as lane:
            target[lane] = source[lane]
        return ib.get()

    s, a, b, c = matmul(6, 16, 5)
    cached = s.cache_write(c, "local")
    jo, ji = s[c].split(c.op.axis[1], factor=8)
    s[cached].compute_at(s[c], jo)
    s[c].tensorize(ji, decl_tensor_intrin(y.op, copy, name="copy8"))
    return s, [a, b, c], product


@case
def tensorized_dot_of_part_of_a_row() -> Made:
    x, y = te.placeholder((4,), name="x"), te.placeholder((4,), name="y")
    k = te.reduce_axis((0, 4), name="k")
    z = te.compute((1,), lambda i: te.sum(x[k] * y[k], axis=k), name="z")

    def by_hand(ins, outs):
        ib = ir_builder.create()
        left, right, out = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        with ib.for_range(0, 4, "lane", kind="unroll") as lane:
            out[0] = out[0] + left[lane] * right[lane]
        return None, None, ib.get()

    p, q = te.placeholder((5, 12), name="P"), te.placeholder((5, 12), name="Q")
    r = te.reduce_axis((0, 12), name="r")
    dots = te.compute((5,), lambda i: te.sum(p[i, r] * q[i, r], axis=r), name="R")
    s = create_schedule(dots.op)
    _outer, inner = s[dots].split(r, factor=4)
    s[dots].tensorize(inner, decl_tensor_intrin(z.op, by_hand, name="dot4"))
    return s, [p, q, dots], lambda a, b: (a * b).sum(axis=1)


# ------------------------------------------------------------------------- circles and halves


def windows() -> tuple[Schedule, Tensor, Tensor, Tensor]:
    """B = A * 2 in (23, 18) elements, C the sums of B over 3 rows."""
    a = te.placeholder((23, 18), name="A")
    b = te.compute((23, 18), lambda i, j: a[i, j] * 2.0, name="B")
    r = te.reduce_axis((0, 3), name="r")
    c = te.compute((21, 18), lambda i, j: te.sum(b[i + r, j], axis=r), name="C")
    return create_schedule(c.op), a, b, c


def window_sums(a: np.ndarray) -> np.ndarray:
    return 2 * (a[:-2] + a[1:-1] + a[2:])


@case
def rolled_along_the_rows() -> Made:
    s, a, b, c = windows()
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    return s, [a, c], window_sums


@case
def rolled_in_tiles_of_rows() -> Made:
    s, a, b, c = windows()
    _outer, inner = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], inner)
    s[b].rolling_buffer()
    s[b].vectorize(b.op.axis[1])
    return s, [a, c], window_sums


@case
def copied_ahead_in_halves() -> Made:
    s, a, b, c = matmul()
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(c.op.axis[0], ko, c.op.axis[1], ki)
    near = s[c].cache_read(b, "local")
    s[near].compute_at(s[c], ko)
    s[near].double_buffer()
    return s, [a, b, c], product


@case
def computed_at_the_root_after_all() -> Made:
    s, (a, b, c) = rows()
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].compute_root()
    return s, [a, c], doubled
