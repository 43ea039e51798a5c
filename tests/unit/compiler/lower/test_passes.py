"""Single lowering passes on functions written by hand."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from compiler.driver.pipeline import lower_func
from compiler.ir.visit import walk
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.blocks.flatten_buffers import flatten_buffers
from compiler.lower.loops.hoist_guards import hoist_guards
from compiler.lower.loops.nested_parallel import serialize_nested_parallel
from compiler.lower.loops.partition_loops import partition_loops
from compiler.lower.loops.simplify import simplify
from compiler.lower.loops.split_tails import split_tails
from compiler.schedule.core.schedule import Schedule
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import BufferStore, For, ForKind, IfThenElse, PrimFunc
from compiler.tir.visit import seq
from tests.kit.compiler.lowering import (
    assert_agreement,
    matmul,
    outputs_by_interpreter,
    outputs_by_machine,
    tile_matmul,
)
from tests.kit.compiler.lowering_hand import buffer, conditions, function, kinds, loop, loops, same, stores

# ------------------------------------------------------------------------------------ guards


def test_guards_leave_the_loops_they_do_not_depend_on() -> None:
    a, i, j, k = buffer("a", 60), n.Var("i"), n.Var("j"), n.Var("k")
    store = IfThenElse(ops.logical_and(i * 5 < 12, j < 3), BufferStore(a, ops.const(1.0), (i * 15 + j * 5 + k,)))
    func = same(function([a], loop(i, 4, loop(j, 4, loop(k, 5, store)))), hoist_guards)
    assert not conditions(func)
    assert [ops.as_int(f.extent) for f in loops(func)] == [3, 3, 5]


def test_a_bound_may_depend_on_outer_loops() -> None:
    a, i, j = buffer("a", 40), n.Var("i"), n.Var("j")
    store = IfThenElse(i * 7 + j < 30, BufferStore(a, ops.const(1.0), (i * 7 + j,)))
    func = same(function([a], loop(i, 8, loop(j, 7, store))), hoist_guards)
    assert not conditions(func)
    assert ops.as_int(loops(func)[1].extent) is None


def test_guards_that_read_memory_stay() -> None:
    a, b, i, j = buffer("a", 8), buffer("b", 8), n.Var("i"), n.Var("j")
    store = IfThenElse(b[i] > 0.0, BufferStore(a, a[j] + 1.0, (j,)))
    body = loop(i, 8, loop(j, 8, seq(store, BufferStore(b, b[j] - 1.0, (j,)))))
    func = same(function([a, b], body), hoist_guards)
    assert len(conditions(func)) == 1


def test_conditions_shared_by_a_sequence_are_tested_once() -> None:
    a, i, j = buffer("a", 16), n.Var("i"), n.Var("j")
    test = i * 4 < 14
    first = IfThenElse(test, BufferStore(a, ops.const(1.0), (i * 4 + j,)))
    second = IfThenElse(ops.logical_and(i * 4 < 14, j < 2), BufferStore(a, ops.const(2.0), (i * 4 + j,)))
    func = same(function([a], loop(i, 4, loop(j, 4, seq(first, second)))), hoist_guards)
    assert len(conditions(func)) == 1


@pytest.mark.parametrize(
    ("relation", "bound"),
    [(op, bound) for op in (ops.less, ops.less_equal, ops.greater, ops.greater_equal) for bound in (-3, 0, 4, 11, 30)],
)
@pytest.mark.parametrize("scale", [1, 3, -2])
def test_partition_at_any_condition(relation: Callable[..., n.PrimExpr], bound: int, scale: int) -> None:
    a, i = buffer("a", 16), n.Var("i")
    choice = IfThenElse(
        relation(i * scale, bound), BufferStore(a, ops.const(1.0), (i,)), BufferStore(a, ops.const(2.0), (i,))
    )
    func = same(function([a], loop(i, 10, choice, low=2)), partition_loops)
    assert not conditions(func)
    assert len({f.loop_var for f in loops(func)}) == len(loops(func)) <= 2


def test_parallel_loops_are_not_partitioned() -> None:
    a, i = buffer("a", 16), n.Var("i")
    choice = IfThenElse(i < 9, BufferStore(a, ops.const(1.0), (i,)), BufferStore(a, ops.const(2.0), (i,)))
    func = same(function([a], loop(i, 16, choice, ForKind.PARALLEL)), partition_loops)
    assert len(loops(func)) == len(conditions(func)) == 1


# ------------------------------------------------------------------------------------- tails


def edge_case(extent: int, tile: int, inner: int, kind: ForKind) -> PrimFunc:
    """Tiles of `tile` rows, `inner` of them at a time, over `extent` rows."""
    a = buffer("a", extent)
    i0, i1, i2 = n.Var("i0"), n.Var("i1"), n.Var("i2")
    row = i0 * tile + i1 * inner + i2
    body = IfThenElse(row < extent, BufferStore(a, a[row] * 2.0 + 1.0, (row,)))
    outer = -(-extent // tile)
    return function([a], loop(i0, outer, loop(i1, -(-tile // inner), loop(i2, inner, body, kind))))


@pytest.mark.parametrize("kind", [ForKind.UNROLLED, ForKind.VECTORIZED])
@pytest.mark.parametrize(("extent", "tile", "inner"), [(50, 12, 4), (50, 16, 16), (7, 8, 8), (48, 12, 4), (1, 4, 2)])
def test_edge_tiles_are_exact(extent: int, tile: int, inner: int, kind: ForKind) -> None:
    """However many levels of tiles, there is one partial tile, and it needs no condition on elements."""
    func = same(edge_case(extent, tile, inner, kind), lambda f: hoist_guards(split_tails(simplify(f))))
    for node in walk(func.body):
        if isinstance(node, For) and node.kind is kind:
            assert not any(isinstance(inside, IfThenElse) for inside in walk(node.body))
    assert len({f.loop_var for f in loops(func)}) == len(loops(func))


def test_symbolic_edges_keep_their_condition() -> None:
    size = n.SizeVar("size")
    a, i0, i1 = buffer("a", size), n.Var("i0"), n.Var("i1")
    body = IfThenElse(i0 * 8 + i1 < size, BufferStore(a, a[i0 * 8 + i1] + 1.0, (i0 * 8 + i1,)))
    handle = n.Var("p", "handle")
    outer = loop(i0, ops.floordiv(size + 7, 8), loop(i1, 8, body, ForKind.VECTORIZED))
    func = PrimFunc((handle, size), outer, None, {handle: a}, {"tir.noalias": True})
    lowered = lower_func(func)
    masked = [s for s in walk(lowered.body) if isinstance(s, BufferStore) and s.predicate is not None]
    plain = [s for s in walk(lowered.body) if isinstance(s, BufferStore) and s.predicate is None]
    assert len(masked) == len(plain) == 1


def test_padding_is_not_asked_about_inside() -> None:
    a, b, i0, i1 = buffer("a", 32), buffer("b", 40), n.Var("i0"), n.Var("i1")
    at = i0 * 8 + i1
    value = if_then_else(ops.logical_and(at >= 4, at < 36), a[at - 4], ops.const(0.0))
    func = same(
        function([a, b], loop(i0, 5, loop(i1, 8, BufferStore(b, value, (at,)), ForKind.VECTORIZED))), lower_func
    )
    plain = [x for x in walk(func.body) if isinstance(x, n.BufferLoad) and x.predicate is None]
    assert plain


# ------------------------------------------------------------------------------------- other


def test_nested_parallel_loops_become_serial() -> None:
    a, i, j, k = buffer("a", 24), n.Var("i"), n.Var("j"), n.Var("k")
    inner = loop(j, 3, loop(k, 2, BufferStore(a, ops.const(1.0), (i * 6 + j * 2 + k,)), ForKind.PARALLEL))
    func = same(function([a], loop(i, 4, inner, ForKind.PARALLEL)), serialize_nested_parallel)
    assert kinds(func) == [ForKind.PARALLEL, ForKind.SERIAL, ForKind.SERIAL]


def test_flattening_honours_strides_and_offsets() -> None:
    data = n.Var("data", "handle")
    whole = buffer("whole", 40, data=data)
    view = n.decl_buffer((3, 4), "float32", "view", data=data, strides=(10, 2), elem_offset=ops.const(5))
    i, j = n.Var("i"), n.Var("j")
    func = function([whole], loop(i, 3, loop(j, 4, BufferStore(view, view[i, j] + 1.0, (i, j)))))
    changed = flatten_buffers(func)
    got = outputs_by_interpreter(changed, [np.zeros(40, "float32")])[0]
    want = np.zeros(40, "float32")
    want[[5 + 10 * r + 2 * c for r in range(3) for c in range(4)]] = 1
    np.testing.assert_array_equal(got, want)


def test_positions_beyond_32_bits() -> None:
    big = buffer("big", 70000, 70000, dtype="int8")
    i, j = n.Var("i"), n.Var("j")
    func = flatten_buffers(
        function([big], loop(i, 70000, loop(j, 70000, BufferStore(big, ops.const(1, "int8"), (i, j)))))
    )
    (store,) = stores(func)
    assert store.indices[0].dtype == "int64"


def test_simplify_drops_what_never_runs() -> None:
    a, i, j, k = buffer("a", 8), n.Var("i"), n.Var("j"), n.Var("k")
    one = BufferStore(a, ops.const(1.0), (i + j,))
    body = seq(
        loop(i, 1, loop(j, 8, IfThenElse(i + j < 8, one, BufferStore(a, ops.const(2.0), (j,))))),
        loop(k, 4, IfThenElse(k > 7, BufferStore(a, ops.const(3.0), (k,)))),
    )
    func = same(function([a], body), simplify)
    assert len(loops(func)) == 1
    assert not conditions(func)


def test_simplify_leaves_data_arithmetic_alone() -> None:
    """x * 2 // 2 is not x where x * 2 wraps."""
    a, b, i = buffer("a", 4, dtype="int32"), buffer("b", 4, dtype="int32"), n.Var("i")
    func = function([a, b], loop(i, 4, BufferStore(b, ops.floordiv(a[i] * 2, 2), (i,))))
    values = np.array([2**31 - 1, -(2**31), 5, 2**30], "int32")
    (_, got) = outputs_by_machine(simplify(func), [values, np.zeros(4, "int32")])
    np.testing.assert_array_equal(got, (values * 2) // 2)


def test_ranges_hold() -> None:
    """Ranges of random index expressions contain every value."""
    rng = random.Random(4)
    for _ in range(200):
        i, j = n.Var("i"), n.Var("j")
        forms = LinearForms()
        forms.ranges.update({i: (0, 5), j: (-3, 4)})
        expr = _random_index(rng, [i, j], 3)
        low, high = forms.bounds(expr)
        for x in range(6):
            for y in range(-3, 5):
                value = _evaluate(expr, {i: x, j: y})
                assert low is None or low <= value
                assert high is None or value <= high
                form = forms.form(expr)
                total = form.offset + sum(_evaluate(atom, {i: x, j: y}) * scale for atom, scale in form.terms)
                assert total == value


def _random_index(rng: random.Random, variables: list[n.Var], depth: int) -> n.PrimExpr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*variables, ops.const(rng.randrange(-4, 5))])
    a = _random_index(rng, variables, depth - 1)
    op = rng.choice([ops.add, ops.sub, ops.mul, ops.minimum, ops.maximum, ops.floordiv, ops.floormod])
    if op in (ops.floordiv, ops.floormod):
        return op(a, rng.choice([1, 2, 3, 7]))
    return op(a, _random_index(rng, variables, depth - 1))


def _evaluate(expr: n.PrimExpr, values: dict[n.Var, int]) -> int:
    match expr:
        case n.Var():
            return values[expr]
        case n.IntImm():
            return expr.value
        case n.BinaryOp():
            a, b = ops.const(_evaluate(expr.a, values)), ops.const(_evaluate(expr.b, values))
            result = ops.as_int(ops.binary(type(expr), a, b))
            assert result is not None
            return result
    raise AssertionError(expr)


# ---------------------------------------------------------------- agreement of whole schedules


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32", "uint16"])
@pytest.mark.parametrize("shape", [(12, 32, 8), (13, 18, 7), (3, 9, 1)])
def test_tiled_matmul(shape: tuple[int, int, int], dtype: str) -> None:
    plain = matmul(*shape, dtype)
    sch = Schedule(plain)
    tiles = tile_matmul(sch, (4, 8, 2))
    panel = sch.cache_read(tiles.block, 1, "global")
    sch.compute_at(panel, tiles.j0)
    for loop_var in (tiles.j1, sch.get_loops(panel)[-1], sch.get_loops(tiles.cache)[-1]):
        sch.vectorize(loop_var)
    sch.unroll(tiles.i1)
    sch.parallel(tiles.i0)
    tolerance = 2e-2 if dtype == "float16" else 1e-4
    assert_agreement(sch.func, plain, None if dtype == "float16" else lambda a, b: a @ b, tolerance)
