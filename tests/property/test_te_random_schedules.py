"""Random legal te schedules of small workloads compute what numpy computes."""

import random
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import topi
from compiler.interp import interpreter as interp
from compiler.te import operation as te
from compiler.te.extern import extern
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import ComputeOp, Tensor
from compiler.tir import ir_builder, ops
from compiler.tir.nodes import Buffer, ForKind, IterType, Stmt
from tests.kit.fuzzing import examples

Reference = Callable[..., np.ndarray]
Workload = tuple[list[Tensor], Reference]


# -------------------------------------------------------------------------------- workloads


def matmul_relu(rng: random.Random) -> Workload:
    m, n, k = (rng.randint(1, 13) for _ in range(3))
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    out = topi.nn.relu(topi.matmul(a, b))
    return [a, b, out], lambda x, y: np.maximum(x @ y, 0)


def padded_convolution(rng: random.Random) -> Workload:
    channels, filters, size = rng.randint(1, 3), rng.randint(1, 3), rng.randint(3, 7)
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((filters, channels, 3, 3), name="weight")

    def reference(d: np.ndarray, w: np.ndarray) -> np.ndarray:
        d = np.pad(d, [(0, 0), (0, 0), (1, 1), (1, 1)])
        out = np.zeros((1, filters, size, size), d.dtype)
        for r in range(3):
            for c in range(3):
                out += np.einsum("nchw,kc->nkhw", d[:, :, r : r + size, c : c + size], w[:, :, r, c])
        return out

    return [data, weight, topi.nn.conv2d_nchw(data, weight, 1, 1, 1)], reference


def stencil_chain(rng: random.Random) -> Workload:
    n = rng.randint(6, 24)
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2, name="B")
    c = te.compute((n - 2,), lambda i: b[i] + b[i + 2], name="C")
    d = te.compute((n - 4,), lambda i: c[i + 1] - c[i + 2] * b[i], name="D")

    def reference(x: np.ndarray) -> np.ndarray:
        y = x * 2
        z = y[:-2] + y[2:]
        return z[1:-1] - z[2:] * y[: n - 4]

    return [a, d], reference


def row_sums(rng: random.Random) -> Workload:
    m, n = rng.randint(1, 9), rng.randint(1, 20)
    a = te.placeholder((m, n), name="A")
    squares = te.compute((m, n), lambda i, j: a[i, j] * a[i, j], name="S")
    k = te.reduce_axis((0, n), name="k")
    total = te.compute((m,), lambda i: te.sum(squares[i, k], axis=k), name="T")
    out = te.compute((m, n), lambda i, j: a[i, j] + total[i], name="D")
    return [a, out], lambda x: x + (x * x).sum(axis=1, keepdims=True)


def transposed_add(rng: random.Random) -> Workload:
    m, n = rng.randint(1, 9), rng.randint(1, 9)
    a, b = te.placeholder((m, n), name="A"), te.placeholder((n, m), name="B")
    flipped = topi.transpose(b)
    out = topi.add(topi.multiply(a, 3.0), flipped)
    return [a, b, out], lambda x, y: x * 3 + y.T


def argmax_rows(rng: random.Random) -> Workload:
    m, n = rng.randint(1, 6), rng.randint(1, 12)
    a = te.placeholder((m, n), name="A")
    pair = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), ops.maximum(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), ops.min_value(t1)),
    )
    k = te.reduce_axis((0, n), name="k")
    at, most = te.compute((m,), lambda i: pair((k.var, a[i, k]), axis=k), name="T")
    out = te.compute((m,), lambda i: most[i] * 2 + at[i].astype("float32"), name="D")
    return [a, out], lambda x: x.max(axis=1) * 2 + x.argmax(axis=1)


def smoothed_by_hand(rng: random.Random) -> Workload:
    """A running sum written by hand between two elementwise stages."""
    n = rng.randint(2, 17)
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")

    def running(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        y[0] = x[0]
        with ib.for_range(1, n) as i:
            y[i] = y[i - 1] + x[i]
        return ib.get()

    total = extern((n,), [b], running, name="R")
    out = te.compute((n,), lambda i: total[i] * b[i], name="D")
    return [a, out], lambda x: np.cumsum(x + 1) * (x + 1)


WORKLOADS = [
    matmul_relu, padded_convolution, stencil_chain, row_sums, transposed_add, argmax_rows, smoothed_by_hand,
]  # fmt: skip


# -------------------------------------------------------------------------------- schedules


def random_schedule(rng: random.Random, args: list[Tensor]) -> Schedule:
    """A legal schedule: rewrites first, then every stage from the output back."""
    s = create_schedule(args[-1].op)
    for stage in list(s.stages):
        if stage.op.reduce_axis and rng.random() < 0.2:
            axis = rng.choice(stage.op.reduce_axis)
            if rng.random() < 0.7:
                axis = rng.choice(stage.split(axis, factor=rng.randint(1, 6)))
            stage.rfactor(axis, rng.randint(0, stage.op.output(0).ndim))
    for stage in list(s.stages):
        if isinstance(stage.op, ComputeOp) and rng.random() < 0.2:
            stage.cache_write(rng.choice(["global", "local"]))
    for stage in list(s.stages):
        readers = [reader for reader in readers_of(s, stage) if stage.op.output(0) in reader.op.input_tensors]
        if readers and rng.random() < 0.15:
            s.cache_read(stage.op.output(0), "global", [rng.choice(readers).op])
    used: set[object] = set()
    grouped = group(rng, s, used) if rng.random() < 0.2 else []
    for stage in reversed(s.stages):
        if isinstance(stage.op, ComputeOp) and stage not in grouped:
            place(rng, s, stage, used)
            if stage.attach_type.name != "INLINE":
                transform(rng, stage)
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and stage.attach_type.name != "INLINE":
            mark(rng, stage, used)
            store(rng, stage)
    return s


def group(rng: random.Random, s: Schedule, used: set[object]) -> list[Stage]:
    """Computes the elementwise or reduced producers of the output, when it alone reads them, at one of its loops."""
    last = s.stages[-1]
    members = [stage for stage in s.stages[:-1] if isinstance(stage.op, ComputeOp) and readers_of(s, stage) == [last]]
    if not members or not isinstance(last.op, ComputeOp) or any(m.op.num_outputs > 1 for m in members):
        return []
    ops_of = [m.op for m in members]
    made = s.create_group(outputs=ops_of, inputs=ops_of, include_inputs=True)
    leaf = rng.choice(last.leaf_iter_vars)
    used.add(leaf)
    made.compute_at(last, leaf)
    return [last, *members]


def readers_of(s: Schedule, stage: Stage) -> list[Stage]:
    outputs = [stage.op.output(i) for i in range(stage.op.num_outputs)]
    return [other for other in s.stages if any(output in other.op.input_tensors for output in outputs)]


def place(rng: random.Random, s: Schedule, stage: Stage, used: set[object]) -> None:
    readers = readers_of(s, stage)
    choice = rng.random()
    if not readers or choice < 0.3:
        return
    if any(not isinstance(reader.op, ComputeOp) for reader in readers):
        return
    if choice < 0.5 and not stage.op.reduce_axis and stage.op.num_outputs == 1:
        stage.compute_inline()
        return
    (reader, *others) = readers
    if not others and reader.attach_type.name != "INLINE":
        leaf = rng.choice(reader.leaf_iter_vars)
        used.add(leaf)
        stage.compute_at(reader, leaf)


def transform(rng: random.Random, stage: Stage) -> None:
    for _ in range(rng.randint(0, 4)):
        leaves = stage.leaf_iter_vars
        number = rng.randrange(len(leaves))
        action = rng.random()
        if action < 0.5:
            amount = rng.randint(1, 9)
            if rng.random() < 0.5:
                stage.split(leaves[number], factor=amount)
            else:
                stage.split(leaves[number], nparts=amount)
        elif action < 0.7 and number + 1 < len(leaves):
            if leaves[number].iter_type is leaves[number + 1].iter_type:
                stage.fuse(leaves[number], leaves[number + 1])
        else:
            stage.reorder(*rng.sample(leaves, rng.randint(1, len(leaves))))


def store(rng: random.Random, stage: Stage) -> None:
    """Memory that lives longer, a condition that always holds, lines fetched ahead, padded rows: no result changes."""
    op = stage.op
    where = stage.attachment()
    if where.attach_stage is not None and rng.random() < 0.3:
        outer = where.attach_stage.leaf_iter_vars
        place = next(i for i, leaf in enumerate(outer) if leaf == where.attach_ivar)
        stage.store_at(where.attach_stage, outer[rng.randint(0, place)])
    if op.axis and rng.random() < 0.2:
        stage.set_store_predicate(op.axis[0].var >= 0)
    if op.input_tensors and rng.random() < 0.2:
        # a tensor that is inlined is not there to be fetched
        source = next((t for t in op.input_tensors if stage.schedule[t].attach_type.name == "GROUP_ROOT"), None)
        serial = [leaf for leaf in stage.leaf_iter_vars if leaf.for_type is ForKind.SERIAL]
        if source is not None and serial:
            stage.prefetch(source, serial[0], rng.randint(0, 2))
    if not stage.is_output and op.axis and rng.random() < 0.2:
        stage.storage_align(rng.choice(op.axis), rng.choice([4, 8]), rng.randint(0, 3))


def mark(rng: random.Random, stage: Stage, used: set[object]) -> None:
    """Vectorise the innermost loop, make the outermost parallel, unroll others, here and there."""
    leaves = stage.leaf_iter_vars
    last, first = leaves[-1], leaves[0]
    if rng.random() < 0.4 and last.iter_type is IterType.DATA_PAR and last not in used:
        stage.vectorize(last)
    elif rng.random() < 0.3 and first.iter_type is IterType.DATA_PAR and stage.attachment().attach_stage is None:
        stage.parallel(first)
    for leaf in leaves[1:-1]:
        if rng.random() < 0.2:
            stage.unroll(leaf)


def inputs(args: list[Tensor], seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    source = np.random.default_rng(seed)
    shapes = [tuple(ops.as_int(d) for d in t.shape) for t in args]
    return [source.standard_normal(s).astype("float32") for s in shapes[:-1]], np.full(shapes[-1], 77, "float32")


@settings(max_examples=examples(35))
@given(st.integers(0, 2**32 - 1))
def test_random_schedules_agree_with_numpy(seed: int) -> None:
    rng = random.Random(seed)
    args, reference = rng.choice(WORKLOADS)(rng)
    schedule = random_schedule(rng, args)
    given_arrays, out = inputs(args, seed)
    interp.run(schedule_to_func(schedule, args), *given_arrays, out)
    np.testing.assert_allclose(out, reference(*given_arrays), rtol=1e-4, atol=1e-4)
