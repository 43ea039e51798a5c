"""Parts of a kernel that run side by side: one launch of the thread pool, and the results of each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from compiler.driver.build import build, compile_artifact, lower
from compiler.interp import interpreter as interp
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.ndarray import array
from compiler.runtime.core.threads import num_threads, set_num_threads
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.side_by_side import independent_loops, order_of_tasks, side_by_side
from tunefarm.script import from_source

HOST = Target.host()


@pytest.fixture(autouse=True, params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def scaled(sizes: list[int], kinds: list[n.ForKind], at_least: float | None = None) -> n.PrimFunc:
    """out_p[i] = x_p[i] * (p + 2) for each part p; with `at_least`, the last part asserts what it reads."""
    params: list[n.Var] = []
    buffers: dict[n.Var, n.Buffer] = {}
    parts: list[n.Stmt] = []
    for p, (size, kind) in enumerate(zip(sizes, kinds)):
        x, out = (n.decl_buffer((size,), "float32", f"{name}{p}") for name in ("x", "out"))
        var, low = n.Var("i", "int32"), p % 2  # some loops do not begin at 0
        value = n.BufferLoad(x, (var - low,))
        store: n.Stmt = n.BufferStore(out, value * ops.const(p + 2, "float32"), (var - low,))
        if at_least is not None and p + 1 == len(sizes):
            store = n.AssertStmt(value >= at_least, n.StringImm("too small"), store)
        parts.append(n.For(var, ops.const(low), ops.const(size), kind, store))
        for buffer in (x, out):
            params.append(n.Var(buffer.name, "handle"))
            buffers[params[-1]] = buffer
    attrs = {"global_symbol": "main", "tir.noalias": True}
    return n.PrimFunc(tuple(params), side_by_side(parts, 2), None, buffers, attrs)


def arguments(sizes: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        item for size in sizes for item in (rng.standard_normal(size).astype("float32"), np.zeros(size, "float32"))
    ]


PARALLEL, SERIAL = n.ForKind.PARALLEL, n.ForKind.SERIAL


@pytest.mark.parametrize("seed", range(12))
def test_each_part_computes_its_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.integers(1, 70, rng.integers(1, 5))]
    func = scaled(sizes, [PARALLEL if rng.random() < 0.7 else SERIAL for _ in sizes])
    given, interpreted = arguments(sizes), arguments(sizes)
    held = [array(item) for item in given]
    build(func, target=HOST)(*held)
    interp.run(func, *interpreted)
    for p in range(len(sizes)):
        wanted = given[2 * p] * (p + 2)
        np.testing.assert_array_equal(held[2 * p + 1].numpy(), wanted)
        np.testing.assert_array_equal(interpreted[2 * p + 1], wanted)


def test_there_is_one_launch() -> None:
    code = compile_artifact(scaled([13, 26], [PARALLEL, SERIAL]), HOST, "main", keep=("ll",)).blobs["ll"].decode()
    assert code.count("call i32 @tunefarm_parallel_for") == 1


def test_a_failing_part_is_told_of_and_the_others_run() -> None:
    func = scaled([9, 40], [PARALLEL, PARALLEL], at_least=-0.5)
    given = arguments([9, 40])
    given[2][:] = 1
    given[2][33] = -1
    held = [array(item) for item in given]
    with pytest.raises(KernelError, match="failed with code 1"):
        build(func, target=HOST)(*held)
    np.testing.assert_array_equal(held[1].numpy(), given[0] * 2)


def test_parts_that_hold_parallel_loops_run_in_order() -> None:
    inner = scaled([4, 4], [PARALLEL, PARALLEL]).body
    assert isinstance(inner, n.AttrStmt)
    outer = side_by_side([inner, inner], 2)
    assert isinstance(outer, n.AttrStmt)
    assert len(independent_loops(inner)) == 2
    assert independent_loops(outer) == []


def test_it_survives_lowering_and_has_a_text() -> None:
    func = scaled([8, 8], [PARALLEL, SERIAL])
    text = lower(func)["main"].script()
    assert 'T.attr(None, "side_by_side", 2)' in text
    assert 'T.attr(None, "side_by_side.part", 1)' in text
    again = from_source(func.script())
    assert again.script() == func.script()


@pytest.mark.parametrize("seed", range(40))
def test_threads_begin_with_their_share_of_each_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = [int(count) for count in rng.integers(1, 50, rng.integers(1, 5))]
    threads, total = int(rng.integers(1, 9)), sum(counts)
    order = order_of_tasks(counts, threads)
    assert sorted(order) == [(part, task) for part, count in enumerate(counts) for task in range(count)]
    for thread in range(threads):
        own = order[thread * total // threads : (thread + 1) * total // threads]
        assert own == sorted(own)
        for part, count in enumerate(counts):
            assert abs(sum(of == part for of, _ in own) - count / threads) <= len(counts)
