"""Vectorizing and unrolling of functions written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.ir.visit import walk
from compiler.lower.blocks.flatten_buffers import flatten_buffers
from compiler.lower.loops.simplify import simplify
from compiler.lower.loops.unroll import unroll
from compiler.lower.loops.vectorize import vectorize
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import BufferStore, ForKind, IfThenElse, PrimFunc
from compiler.tir.visit import seq
from tests.kit.compiler.lowering_hand import buffer, conditions, function, kinds, loop, loops, same, stores

# ----------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(("extent", "lanes"), [(16, [16]), (24, [16, 8]), (7, [4, 2, 1]), (1, [1]), (64, [64])])
def test_vectors_come_in_powers_of_two(extent: int, lanes: list[int]) -> None:
    a, b, i = buffer("a", extent), buffer("b", extent), n.Var("i")
    func = function([a, b], loop(i, extent, BufferStore(b, a[i] + ops.cast("float32", i), (i,)), ForKind.VECTORIZED))
    changed = same(func, vectorize)
    assert [getattr(s.indices[0], "lanes", 1) for s in stores(changed)] == lanes


def test_long_vectors_become_a_loop_of_pieces() -> None:
    a, b, i = buffer("a", 300), buffer("b", 300), n.Var("i")
    func = function([a, b], loop(i, 300, BufferStore(b, a[i] * 2.0, (i,)), ForKind.VECTORIZED))
    changed = same(func, vectorize)
    (over,) = loops(changed)
    assert ops.as_int(over.extent) == 4
    assert [getattr(s.indices[0], "lanes", 1) for s in stores(changed)] == [64, 32, 8, 4]


def test_a_reduction_over_lanes_runs_serially() -> None:
    a, b, i = buffer("a", 16), buffer("b", 1), n.Var("i")
    zero = ops.const(0)
    func = function([a, b], loop(i, 16, BufferStore(b, b[zero] + a[i], (zero,)), ForKind.VECTORIZED))
    (left,) = loops(same(func, vectorize))
    assert left.kind is ForKind.SERIAL


def test_what_has_no_vector_form_runs_serially() -> None:
    a, b, t, i, j = buffer("a", 8), buffer("b", 8), buffer("t", 1), n.Var("i"), n.Var("j")
    zero = ops.const(0)
    last = BufferStore(b, a[i], (zero,))  # the last iteration's value stays
    inner = seq(BufferStore(t, a[i], (zero,)), BufferStore(b, t[zero] * 2.0, (i,)))
    temporary = n.Allocate(t.data, "float32", (ops.const(1),), ops.const(True), inner)
    triangle = loop(j, i + 1, BufferStore(b, a[j] + 1.0, (j,)))
    for body in (last, temporary, triangle):
        func = same(function([a, b], loop(i, 8, body, ForKind.VECTORIZED)), vectorize)
        assert all(f.kind is ForKind.SERIAL for f in loops(func))


def test_a_row_that_a_tensor_names_is_read_as_a_vector() -> None:
    """Its number has 64 bits, the column 32."""
    table, rows, out = buffer("table", 9, 16), buffer("rows", 4, dtype="int64"), buffer("out", 4, 16)
    i, j = n.Var("i"), n.Var("j")
    row = ops.maximum(ops.minimum(rows[i], ops.const(8, "int64")), ops.const(0, "int64"))
    along = loop(j, 16, BufferStore(out, table[row, j], (i, j)), ForKind.VECTORIZED)
    changed = same(flatten_buffers(function([table, rows, out], loop(i, 4, along))), vectorize)
    [place] = [load.indices[0] for s in stores(changed) for load in walk(s.value) if load_of(load, "table")]
    assert isinstance(place, n.Ramp)
    assert ops.as_int(place.stride) == 1


@pytest.mark.parametrize("case", ["index", "data", "far apart", "too large"])
def test_lanes_of_indices_are_widened_at_once(case: str) -> None:
    """Numbers that a tensor holds may overflow with 32 bits, and are widened lane by lane."""
    first, out, i = buffer("first", 1, dtype="int32"), buffer("out", 16, dtype="int64"), n.Var("i")
    added = {"data": first[ops.const(0)], "too large": ops.const((1 << 31) - 5)}.get(case, ops.const(5))
    number = ops.add(ops.mul(i, 1_000_000_007), 5) if case == "far apart" else ops.add(i, added)
    store = BufferStore(out, ops.cast("int64", number), (i,))
    changed = same(function([first, out], loop(i, 16, store, ForKind.VECTORIZED)), vectorize)
    assert [isinstance(s.value, n.Ramp) for s in stores(changed)] == [case == "index"]


def load_of(node: Any, name: str) -> bool:
    return isinstance(node, n.BufferLoad) and node.buffer.name.startswith(name)


def test_a_loop_inside_a_vectorized_one() -> None:
    a, b, c, i, k = buffer("a", 5, 8), buffer("b", 5), buffer("c", 8), n.Var("i"), n.Var("k")
    body = seq(BufferStore(c, ops.const(0.0), (i,)), loop(k, 5, BufferStore(c, c[i] + a[k, i] * b[k], (i,))))
    func = function([a, b, c], loop(i, 8, body, ForKind.VECTORIZED))
    changed = same(func, lambda f: vectorize(simplify(flatten_buffers(f))))
    assert all(s.indices[0].dtype == "int32x8" for s in stores(changed))


def test_scalar_reads_under_a_mask_are_guarded() -> None:
    """a[i0] does not exist for the last, empty vector."""
    a, b, i0, i1 = buffer("a", 3), buffer("b", 20), n.Var("i0"), n.Var("i1")
    body = IfThenElse(i0 * 8 + i1 < 20, BufferStore(b, a[i0] + 1.0, (i0 * 8 + i1,)))
    func = function([a, b], loop(i0, 5, loop(i1, 8, body, ForKind.VECTORIZED)))
    changed = same(func, vectorize)
    assert len(conditions(changed)) == 1
    assert stores(changed)[0].predicate is not None


def test_division_within_a_row_stays_scalar() -> None:
    """Lanes that lie in one row of eight share the row's number."""
    a, b, i0, i1 = buffer("a", 4), buffer("b", 32), n.Var("i0"), n.Var("i1")
    at = i0 * 4 + i1
    value = a[ops.floordiv(at, 8)] + ops.cast("float32", ops.floormod(at, 4))
    func = function([a, b], loop(i0, 8, loop(i1, 4, BufferStore(b, value, (at,)), ForKind.VECTORIZED)))
    changed = same(func, vectorize)
    assert len(stores(changed)) == 1
    assert stores(changed)[0].indices[0].dtype == "int32x4"


# ------------------------------------------------------------------------------------ unroll


def tile_nest(scope: str, rows: int, cols: int, **more: Any) -> PrimFunc:
    a, t = buffer("a", rows * cols), buffer("t", rows * cols, scope=scope)
    i, j, k = n.Var("i"), n.Var("j"), n.Var("k")
    fill = loop(i, rows, loop(j, cols, BufferStore(t, a[i * cols + j], (i * cols + j,))), **more)
    out = loop(k, rows * cols, BufferStore(a, t[k] * 2.0, (k,)))
    size = ops.const(rows * cols)
    return function([a], n.Allocate(t.data, "float32", (size,), ops.const(True), seq(fill, out), scope))


def test_loops_over_a_register_tile_are_unrolled() -> None:
    assert set(kinds(same(tile_nest("local", 2, 4), unroll))) == {ForKind.UNROLLED}
    assert set(kinds(same(tile_nest("global", 2, 4), unroll))) == {ForKind.SERIAL}
    assert set(kinds(same(tile_nest("local", 40, 40), unroll))) <= {ForKind.SERIAL, ForKind.UNROLLED}


def test_an_unroll_pragma_unrolls_up_to_its_step() -> None:
    for step, expected in ((3, [False, False]), (4, [False, True]), (8, [True, True])):
        func = tile_nest("global", 2, 4, annotations={"pragma_auto_unroll_max_step": step, "pragma_unroll_explicit": 1})
        changed = same(func, unroll)
        assert [k is ForKind.UNROLLED for k in kinds(changed)[:2]] == expected
        assert not loops(changed)[0].annotations


def test_unrolling_stops_before_it_explodes() -> None:
    a = buffer("a", 2)
    body: n.Stmt = BufferStore(a, ops.const(1.0), (ops.const(0),))
    for name, extent in zip("ijkl", (16, 16, 16, 5)):
        body = loop(n.Var(name), extent, body, ForKind.UNROLLED)
    changed = same(function([a], body), unroll)
    assert [k is ForKind.UNROLLED for k in kinds(changed)] == [False, False, True, True]
    wide = vectorize(function([b := buffer("b", 512)], _wide_nest(b)))
    assert [k is ForKind.UNROLLED for k in kinds(unroll(wide, 128))] == [False, True, True]
    assert [k is ForKind.UNROLLED for k in kinds(unroll(wide, 512))] == [True, True, True]


def _wide_nest(b: n.Buffer) -> n.Stmt:
    """8 x 4 x 4 stores of 64 floats: 16 registers of 128 bits each, or 4 of 512."""
    j = n.Var("j")
    body: n.Stmt = loop(j, 64, BufferStore(b, ops.const(1.0), (j,)), ForKind.VECTORIZED)
    for name, extent in (("k", 4), ("l", 4), ("m", 8)):
        body = loop(n.Var(name), extent, body, ForKind.UNROLLED)
    return body


@pytest.mark.parametrize(("extent", "lanes"), [(14, [16]), (28, [16, 16]), (7, [8]), (24, [16, 8]), (49, [32, 16, 1])])
def test_a_last_part_of_a_vector_is_masked_where_vectors_have_masks(extent: int, lanes: list[int]) -> None:
    a, b, i = buffer("a", extent), buffer("b", extent), n.Var("i")
    func = function([a, b], loop(i, extent, BufferStore(b, a[i] * 2.0, (i,)), ForKind.VECTORIZED))
    changed = same(func, lambda func: vectorize(func, 512))
    assert [getattr(s.indices[0], "lanes", 1) for s in stores(changed)] == lanes


def test_steps_and_temporary_arrays_have_no_masks() -> None:
    """Elements apart would be gathered one by one, and an array that masks reach into is no register."""
    wide, b, i, j = buffer("wide", 70), buffer("b", 14), n.Var("i"), n.Var("j")
    apart = loop(i, 14, BufferStore(b, wide[i * 5] * 2.0, (i,)), ForKind.VECTORIZED)
    func = same(function([wide, b], apart), lambda func: vectorize(func, 512))
    assert [s.predicate for s in stores(func)] == [None] * 3
    for scope in ("global", "local"):
        a, t = buffer("a", 14), buffer("t", 14, scope=scope)
        inner = seq(
            loop(i, 14, BufferStore(t, a[i] * 2.0, (i,)), ForKind.VECTORIZED),
            loop(j, 14, BufferStore(b, t[j], (j,)), ForKind.VECTORIZED),
        )
        body = n.Allocate(t.data, "float32", (ops.const(14),), ops.const(True), inner, scope)
        func = same(function([a, b], body), lambda func: vectorize(func, 512))
        assert [s.predicate for s in stores(func) if s.buffer.name == "t"] == [None] * 3
