"""Threads in lock step: races and divergent barriers are found, inserted barriers end them."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.build import lower
from compiler.errors import LoweringError
from compiler.interp import interpreter as interp
from compiler.interp import threads as interp_threads
from compiler.interp.thread_blocks import DivergentBarrier
from compiler.interp.thread_memory import RaceError
from compiler.ir.structural import structural_equal
from compiler.ir.text import script
from compiler.ir.visit import walk
from compiler.lower.gpu.inject_barriers import inject_barriers
from compiler.script.entry import from_source
from compiler.te.operation import compute, placeholder, reduce_axis, thread_axis
from compiler.te.reduction import sum as te_sum
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import gpu as gpu
from compiler.tir.visit import seq
from tests.kit.gpu.checks import run_threads

THREADS = 64


def buffers(size: int = THREADS, scope: str = "shared") -> tuple[n.Buffer, n.Buffer]:
    return n.decl_buffer((size,), "float32", "B"), n.decl_buffer((size,), "float32", "S", scope=scope)


def kernel(body, *args: n.Buffer, shared: n.Buffer | None = None, threads: int = THREADS, blocks: int = 1):
    """A function whose threads run `body(block, thread)`."""
    bx, tx = n.Var("bx", "int32"), n.Var("tx", "int32")
    inner = body(bx, tx)
    if shared is not None:
        inner = n.Allocate(shared.data, shared.dtype, shared.shape, ops.const(True), inner, shared.scope)
    for var, tag, extent in ((tx, "threadIdx.x", threads), (bx, "blockIdx.x", blocks)):
        axis = n.IterVar(None, n.Var(tag, "int32"), n.IterType.THREAD_INDEX, tag)
        inner = n.For(var, 0, extent, n.ForKind.THREAD_BINDING, inner, axis)
    params = tuple(n.Var(f"p_{b.name}", "handle") for b in args)
    return n.PrimFunc(params, inner, buffer_map=dict(zip(params, args)))


def sync(scope: str = "shared") -> n.Stmt:
    return n.Evaluate(gpu.tvm_storage_sync(scope))


def barriers(func: n.PrimFunc) -> int:
    return sum(isinstance(x, n.Call) and getattr(x.op, "name", "") == "tir.tvm_storage_sync" for x in walk(func.body))


def reversal(*between: n.Stmt) -> n.PrimFunc:
    """S[tx] = tx; then B[tx] = S[last - tx]."""
    out, shared = buffers()
    return kernel(
        lambda _, tx: seq(
            n.BufferStore(shared, ops.cast("float32", tx), (tx,)),
            *between,
            n.BufferStore(out, shared[THREADS - 1 - tx], (tx,)),
        ),
        out,
        shared=shared,
    )


def test_a_missing_barrier_is_a_race_and_an_inserted_one_ends_it() -> None:
    out = np.zeros(THREADS, np.float32)
    with pytest.raises(RaceError, match=r"race on S\[32\]: thread 31 reads it and thread 32 writes it, no barrier"):
        interp_threads.run(reversal(), out)
    fixed = inject_barriers(reversal())
    assert barriers(fixed) == 1
    interp_threads.run(fixed, out)
    np.testing.assert_array_equal(out, np.arange(THREADS)[::-1])
    assert barriers(inject_barriers(reversal(sync()))) == 1


def test_warps_that_wait_for_themselves_do_not_wait_for_each_other() -> None:
    with pytest.raises(RaceError, match=r"race on S"):
        interp_threads.run(reversal(sync("warp")), np.zeros(THREADS, np.float32))
    func, out = inject_barriers(reversal(sync("warp"))), np.zeros(THREADS, np.float32)
    assert barriers(func) == 2
    interp_threads.run(func, out)
    np.testing.assert_array_equal(out, np.arange(THREADS)[::-1])


def test_no_barrier_is_put_into_a_while_loop() -> None:
    """Nothing says that all threads run it as often."""
    out, shared = buffers()

    def turns(_: n.Var, tx: n.Var) -> n.Stmt:
        swap = seq(
            n.BufferStore(shared, out[tx], (tx,)),
            n.BufferStore(out, shared[THREADS - 1 - tx] + ops.const(1.0, "float32"), (tx,)),
        )
        return n.While(ops.less(out[tx], ops.const(4.0, "float32")), swap)

    with pytest.raises(LoweringError, match="to use S, in a while loop"):
        inject_barriers(kernel(turns, out, shared=shared))


def test_no_barrier_where_each_thread_uses_its_own() -> None:
    out, shared = buffers()
    func = kernel(
        lambda _, tx: seq(n.BufferStore(shared, ops.const(1.0), (tx,)), n.BufferStore(out, shared[tx], (tx,))),
        out,
        shared=shared,
    )
    assert barriers(inject_barriers(func)) == 0
    interp_threads.run(func, np.zeros(THREADS, np.float32))


def test_a_loop_needs_a_barrier_at_its_start_too() -> None:
    out, shared = buffers()
    k = n.Var("k", "int32")

    def body(_, tx):
        fill = n.BufferStore(shared, ops.cast("float32", k), (tx,))
        use = n.BufferStore(out, out[tx] + shared[THREADS - 1 - tx], (tx,))
        return n.For(k, 0, 3, n.ForKind.SERIAL, seq(fill, use))

    func = inject_barriers(kernel(body, out, shared=shared))
    assert barriers(func) == 2
    found = np.zeros(THREADS, np.float32)
    interp_threads.run(func, found)
    assert (found == 3).all()


def test_barriers_that_not_all_threads_reach() -> None:
    out, shared = buffers()
    func = kernel(lambda _, tx: n.IfThenElse(tx < 10, sync()), out, shared=shared)
    with pytest.raises(DivergentBarrier, match=r"thread 0 waits at barrier 2, which thread 10 .* has ended"):
        interp_threads.run(func, np.zeros(THREADS, np.float32))

    def body(_, tx):
        return n.IfThenElse(
            tx < 10, seq(n.BufferStore(shared, ops.const(1.0), (tx,)), n.BufferStore(out, shared[9 - tx], (tx,)))
        )

    with pytest.raises(LoweringError, match="threads must wait for each other to use B, S, under a condition"):
        inject_barriers(kernel(body, out, shared=shared))


def test_blocks_race_and_atomics_do_not() -> None:
    out, _ = buffers(1)
    plain = kernel(lambda bx, _: n.BufferStore(out, out[0] + 1.0, (0,)), out, threads=1, blocks=2)
    with pytest.raises(RaceError, match="nothing orders blocks"):
        interp_threads.run(plain, np.zeros(1, np.float32))
    adding = kernel(lambda *_: n.Evaluate(gpu.atomic_add(out[0], 1.0)), out, threads=THREADS, blocks=2)
    found = np.zeros(1, np.float32)
    interp_threads.run(adding, found)
    assert found[0] == 2 * THREADS


@pytest.mark.parametrize(
    ("shuffle", "argument", "source"),
    [
        (gpu.tvm_warp_shuffle, 3, lambda t: t - t % 8 + 3),
        (gpu.tvm_warp_shuffle_up, 2, lambda t: t - 2 if t % 8 >= 2 else t),
        (gpu.tvm_warp_shuffle_down, 1, lambda t: t + 1 if t % 8 < 7 else t),
        (gpu.tvm_warp_shuffle_xor, 5, lambda t: t ^ 5),
        (gpu.tvm_warp_shuffle_xor, 8, lambda t: t ^ 8 if t & 8 else t),  # groups reach those before them
    ],
)
def test_shuffles_within_groups(shuffle, argument: int, source) -> None:
    out, _ = buffers()
    func = kernel(
        lambda _, tx: n.BufferStore(out, shuffle(gpu.FULL_MASK, ops.cast("float32", tx), argument, 8, gpu.WARP), (tx,)),
        out,
    )
    found = np.zeros(THREADS, np.float32)
    interp_threads.run(func, found)
    assert found.tolist() == [source(t) for t in range(THREADS)]
    assert "tvm_warp_shuffle" in script(func)


def row_sum(rows: int, columns: int, threads: int, side: int = 1) -> tuple[Schedule, list]:
    a = placeholder((rows, columns), name="A")
    k = reduce_axis((0, columns), name="k")
    b = compute((rows,), lambda i: te_sum(a[i, k], axis=k), name="B")
    s = create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=threads)
    i = b.op.axis[0]
    if side > 1:
        i, own = s[b].split(i, factor=side)
        s[b].bind(own, thread_axis("threadIdx.y"))
    s[b].bind(i, thread_axis("blockIdx.x"))
    s[b].bind(inner, thread_axis("threadIdx.x"))
    return s, [a, b]


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "side", "how"),
    [
        (3, 70, 32, 1, "shuffle"),  # a warp
        (2, 200, 64, 1, "shuffle"),  # warps, and shared memory between them
        (8, 40, 16, 4, "shuffle"),  # two groups a warp
        (5, 33, 10, 1, "S_shared"),  # no even part of a warp
        (6, 24, 8, 2, "S_shared"),  # not whole warps
        (2, 5, 1, 1, "part"),
    ],
)
def test_threads_reduce_together(rows: int, columns: int, threads: int, side: int, how: str) -> None:
    schedule, args = row_sum(rows, columns, threads, side)
    module = lower(schedule, args)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 8, (rows, columns)).astype(np.float32), np.zeros(rows, np.float32)
    run_threads(module, a, b)
    np.testing.assert_array_equal(b, a.sum(1))
    text = inject_barriers(module["main"]).script()
    assert ("shuffle" in text) == (how == "shuffle")
    assert structural_equal(from_source(text), inject_barriers(module["main"]))


def test_the_sequential_interpreter_still_runs_what_threads_share() -> None:
    """Bound loops without exchange mean the same one iteration after another."""
    a = placeholder((4, 32), name="A")
    shared = compute((4, 32), lambda i, j: a[i, j] * 2.0, name="S")
    b = compute((4, 32), lambda i, j: shared[i, 31 - j], name="B")
    s = create_schedule(b.op)
    s[b].bind(b.op.axis[0], thread_axis("blockIdx.x"))
    s[b].bind(b.op.axis[1], thread_axis("threadIdx.x"))
    s[shared].compute_at(s[b], b.op.axis[0])
    s[shared].bind(s[shared].op.axis[1], thread_axis("threadIdx.x"))
    module = lower(s, [a, b])
    text = module.script()
    assert 'T.allocate([32], "float32", "shared")' in text
    x = np.arange(128, dtype=np.float32).reshape(4, 32)
    for run in (interp.run, lambda func, *arrays: interp_threads.run(inject_barriers(func), *arrays)):
        out = np.zeros((4, 32), np.float32)
        run(module["main"], x, out)
        np.testing.assert_array_equal(out, x[:, ::-1] * 2)
