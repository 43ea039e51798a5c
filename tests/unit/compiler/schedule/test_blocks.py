"""Moving, caching and factoring blocks in the less plain cases."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.interp.interpreter import run
from compiler.schedule.analysis.injective import undetermined
from compiler.schedule.analysis.tree import tree_text
from compiler.schedule.core.schedule import Schedule
from compiler.script.entry import from_source
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimFunc
from tests.kit.compiler.schedules import workloads as w


def _extents(s: Schedule, block: str) -> list[int | None]:
    return [ops.as_int(s.get(loop).extent) for loop in s.get_loops(block)]


def _two_readers(n: int = 8) -> PrimFunc:
    """B = A * 2; C = B + 1; D = B * C; blocks B, C, D."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    d = te.compute((n,), lambda i: b[i] * c[i], name="D")
    return create_prim_func([a, d])


# -------------------------------------------------------------------------------- compute_at


def test_compute_at_takes_the_union_of_what_all_readers_need() -> None:
    func = _two_readers()
    s = Schedule(func)
    (i,) = s.get_loops("D")
    outer, _ = s.split(i, [None, 3])
    s.compute_at(s.get_block("C"), outer)
    s.compute_at(s.get_block("B"), outer)
    assert _extents(s, "B") == [3, 3]
    w.check_same(s, func)
    assert [s.get(b).name_hint for b in s.get_child_blocks(outer)] == ["B", "C", "D"]


def test_the_place_of_a_block_can_be_chosen() -> None:
    func = _two_readers()
    s = Schedule(func)
    (i,) = s.get_loops("D")
    s.compute_at(s.get_block("C"), i)
    s.compute_at(s.get_block("B"), i, index=0)
    other = Schedule(func)
    (i,) = other.get_loops("D")
    other.compute_at(other.get_block("C"), i)
    with pytest.raises(ScheduleError, match="places 0 to 0 are legal"):
        other.compute_at(other.get_block("B"), i, index=1)
    w.check_same(s, func)


def test_loops_of_one_iteration_are_kept_on_request() -> None:
    for keep, extents in ((False, [13, 11, 10]), (True, [13, 11, 1, 1, 10])):
        s = Schedule(w.matmul_relu())
        s.compute_at(s.get_block("C"), s.get_loops("D")[1], preserve_unit_loops=keep)
        assert _extents(s, "C") == extents
        w.check_same(s, w.matmul_relu())


def test_threads_fill_what_they_share_together() -> None:
    """A copy in shared memory inside a loop over threads holds what all of them read, one in local memory only
    what its thread reads."""
    for scope, extent in (("shared", 12), ("local", 3)):
        s = Schedule(w.chain(12, 4))
        i, _ = s.get_loops("D")
        outer, inner = s.split(i, [4, 3])
        s.bind(outer, "threadIdx.x")
        copy = s.cache_read(s.get_block("D"), 0, scope)
        s.compute_at(copy, outer)
        assert _extents(s, f"C_{scope}")[1] == extent
        assert s.get(inner).loop_var.name == "i_1"


def test_compute_at_with_two_outputs() -> None:
    a = te.placeholder((10,), name="A")
    both = te.compute((10,), lambda i: (a[i] * 2.0, a[i] + 1.0), name="B")
    c = te.compute((10,), lambda i: both[0][i] * both[1][i], name="C")
    func = create_prim_func([a, c])
    s = Schedule(func)
    outer, _ = s.split(s.get_loops("C")[0], [None, 4])
    for block in ("B_v0", "B_v1"):
        s.compute_at(s.get_block(block), outer)
        assert _extents(s, block) == [3, 4]
    w.check_same(s, func)


def test_symbolic_sizes() -> None:
    size = te.size_var("n")
    a = te.placeholder((size, size), name="A")
    r = te.reduce_axis((0, size), name="r")
    b = te.compute((size,), lambda i: te.sum(a[i, r], axis=r), name="B")
    c = te.compute((size,), lambda i: b[i] * 2.0, name="C")
    func = create_prim_func([a, c])
    s = Schedule(func)
    outer, inner = s.split(s.get_loops("C")[0], [None, 4])
    s.compute_at(s.get_block("B"), outer)
    _, rows, reduce = s.get_loops("B")
    ro, ri = s.split(reduce, [None, 3])
    s.reorder(ro, rows, ri)
    s.decompose_reduction(s.get_block("B"), ro)
    s.vectorize(inner)
    s.parallel(outer)
    for count in (1, 4, 7, 13):
        x = np.random.default_rng(count).standard_normal((count, count)).astype("float32")
        y = np.full(count, np.nan, "float32")
        run(s.func, x, y)
        np.testing.assert_allclose(y, 2 * x.sum(axis=1), rtol=1e-4, atol=1e-5)


# -------------------------------------------------------------------------------------- caches


def test_only_chosen_readers_use_the_copy() -> None:
    func = _two_readers()
    s = Schedule(func)
    s.cache_read(s.get_block("C"), 0, "local", [s.get_block("C")])
    assert s.get(s.get_block("C")).reads[0].buffer.name == "B_local"
    assert {r.buffer.name for r in s.get(s.get_block("D")).reads} == {"B", "C"}
    w.check_same(s, func)
    every = Schedule(func)
    every.cache_read(every.get_block("C"), 0, "local")
    assert {r.buffer.name for r in every.get(every.get_block("D")).reads} == {"B_local", "C"}
    w.check_same(every, func)


def test_a_copy_holds_only_what_is_read() -> None:
    a = te.placeholder((20, 9), name="A")
    func = create_prim_func([a, te.compute((4, 9), lambda i, j: a[i * 2 + 3, j], name="B")])
    s = Schedule(func)
    s.cache_read(s.get_block("B"), 0, "global")
    assert _extents(s, "A_global") == [7, 9]
    w.check_same(s, func)


def test_cache_write_after_the_init_was_taken_out() -> None:
    func = w.matmul()
    s = Schedule(func)
    block = s.get_block("C")
    init = s.decompose_reduction(block, s.get_loops(block)[2])
    s.cache_write(block, 0, "local")
    assert {s.get(b).writes[0].buffer.name for b in (init, block)} == {"C_local"}
    w.check_same(s, func)


def test_cache_write_of_what_is_read_in_the_same_loop() -> None:
    func = w.chain()
    s = Schedule(func)
    s.compute_at(s.get_block("B"), s.get_loops("C")[0])
    s.cache_write(s.get_block("B"), 0, "local")
    assert [s.get(b).name_hint for b in s.get_child_blocks(s.get_loops("C")[0])] == ["B", "B_local", "C"]
    w.check_same(s, func)


def test_a_result_that_is_added_to_cannot_be_cached() -> None:
    a, c = n.decl_buffer((8,), name="A"), n.decl_buffer((8,), name="C")
    v, i = n.Var("v"), n.Var("i")
    body = n.BufferStore(c, c[v] + a[v], (v,))
    spot = (n.Range(v, ops.const(1)),)
    block = n.Block(
        (n.IterVar(n.Range.from_extent(8), v),),
        (n.BufferRegion(c, spot), n.BufferRegion(a, spot)), (n.BufferRegion(c, spot),), "C", body,
    )  # fmt: skip
    loop = n.For(i, ops.const(0), ops.const(8), ForKind.SERIAL, n.BlockRealize((i,), ops.const(True), block))
    root = n.BlockRealize((), ops.const(True), n.Block((), (), (), "root", loop))
    params = (n.Var("a", "handle"), n.Var("c", "handle"))
    s = Schedule(n.PrimFunc(params, root, None, {params[0]: a, params[1]: c}))
    with pytest.raises(ScheduleError, match="adds to what 'C' held before"):
        s.cache_write(s.get_block("C"), 0, "local")


@pytest.mark.parametrize("shape", [(13, 37, 10), (16, 32, 8), (5, 3, 1)])
def test_a_packed_register_tile(shape: tuple[int, int, int]) -> None:
    """The whole of what a tuned matmul does: panels, packing, a register tile, its init, vectors, threads."""
    func = w.matmul(*shape)
    s = Schedule(func)
    block = s.get_block("C")
    copy = s.cache_write(block, 0, "local")
    i, j, k = s.get_loops(block)
    j_outer, j_panel, j_vector, j_lane = s.split(j, [None, 2, 2, 4])
    i_outer, i_tile = s.split(i, [None, 3])
    k_outer, k_inner = s.split(k, [None, 4])
    s.reorder(j_outer, i_outer, j_panel, k_outer, k_inner, i_tile, j_vector, j_lane)
    s.reverse_compute_at(copy, j_panel, preserve_unit_loops=True)
    packed = s.cache_read(block, s.read_index(block, "B"), "global")
    s.compute_at(packed, j_outer, preserve_unit_loops=True)
    s.vectorize(s.split(s.get_loops(packed)[-1], [None, 4])[1])
    s.parallel(j_outer)
    init = s.decompose_reduction(block, k_outer)
    for loop in (k_inner, i_tile, j_vector):
        s.unroll(loop)
    s.vectorize(j_lane)
    s.vectorize(s.get_loops(init)[-1])
    s.vectorize(s.split(s.get_loops(copy)[-1], [None, 4])[1])
    w.check_same(s, func)
    assert "block C_local" in tree_text(s.func.body)


# ---------------------------------------------------------------------------------- reductions


def _reduction(kind: str, n: int = 14) -> PrimFunc:
    a = te.placeholder((3, n), name="A")
    r = te.reduce_axis((0, n), name="r")
    combine = {"sum": te.sum, "min": te.min, "max": te.max, "prod": te.prod}[kind]
    return create_prim_func([a, te.compute((3,), lambda i: combine(a[i, r], axis=r), name="S")])


@pytest.mark.parametrize("kind", ["sum", "min", "max", "prod"])
@pytest.mark.parametrize("factors", [[None, 4], [3, None], [None, 20], [1, None]])
@pytest.mark.parametrize("which", [0, 1])
def test_rfactor_sets_every_partial_result(kind: str, factors: list[int | None], which: int) -> None:
    func = _reduction(kind)
    s = Schedule(func)
    _, r = s.get_loops("S")
    partial = s.rfactor(s.split(r, factors)[which], 0)
    s.parallel(s.get_loops(partial)[1 + which])
    w.check_same(s, func)


def test_rfactor_of_two_fused_axes() -> None:
    a = te.placeholder((4, 3, 5), name="A")
    r, q = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 5), name="q")
    func = create_prim_func([a, te.compute((4,), lambda i: te.sum(a[i, r, q], axis=[r, q]), name="S")])
    s = Schedule(func)
    _, r_loop, q_loop = s.get_loops("S")
    _, inner = s.split(s.fuse(r_loop, q_loop), [None, 4])
    s.rfactor(inner, 1)
    w.check_same(s, func)


def _two_results(body: str, init: str = "a[i] = -1.0\n                b[i] = -9.0") -> Schedule:
    return Schedule(
        from_source(f"""
@T.prim_func
def main(x: T.Buffer((4, 12)), y: T.Buffer((4, 12)), b: T.Buffer((4,)), a: T.Buffer((4,))):
    for r, q in T.grid(4, 12):
        with T.block("both"):
            i, k = T.axis.remap("SR", [r, q])
            with T.init():
                {init}
            {body}
""")
    )


_MAXIMUM = """u: T.float32 = T.Select(b[i] >= y[i, k], a[i], x[i, k])
            v: T.float32 = T.Select(b[i] >= y[i, k], b[i], y[i, k])
            a[i] = u
            b[i] = v"""


def test_rfactor_of_a_maximum_and_its_place() -> None:
    s = _two_results(_MAXIMUM)
    partial = s.rfactor(s.split(s.get_loops("both")[1], [None, 4])[1], 1)
    assert [region.buffer.name for region in s.get(partial).writes] == ["a_rf", "b_rf"]
    assert [ops.as_int(d) for d in s.get(partial).writes[0].buffer.shape] == [4, 4]
    w.check_same(s, _two_results(_MAXIMUM).func)


@pytest.mark.parametrize(
    ("body", "init", "says"),
    [
        ("a[i] = T.Select(b[i] >= y[i, k], a[i], x[i, k])\n            b[i] = T.max(b[i], y[i, k])", None, None),
        ("b[i] = T.max(b[i], y[i, k])\n            a[i] = T.Select(b[i] >= y[i, k], a[i], x[i, k])", None, "after it"),
        ("a[i] = x[i, k]\n            b[i] = b[i] + y[i, k]", None, "does not combine 'a'"),
        ("a[i] = a[i] + x[i, k]\n            b[i] = b[i] + y[i, k]", "a[i] = 0.0\n                a[i] = 1.0",
         "the same elements"),
        ("a[i] = a[i] + x[i, k]\n            b[0] = b[0] + x[i, k]", None, "the same elements"),
        ("a[i] = T.Select(b[i] >= y[i, k], a[i], x[i, k])\n            b[i] = T.min(b[i], y[i, k])", None,
         "on the order"),
        ("a[i] = T.Select(b[i] >= y[i, k], a[i], x[i, k])\n            b[i] = b[i] + y[i, k]", None, "on the order"),
        (_MAXIMUM.replace("b[i] >= y[i, k]", "b[i] >= 0.0"), None, "something else than comparing"),
        (_MAXIMUM.replace("b[i] >= y[i, k]", "b[i] != y[i, k]"), None, "depends on the order"),
        (_MAXIMUM.replace("b[i] >= y[i, k]", "b[i] >= y[i, k] or a[i] <= x[i, k]"), None, "depends on the order"),
        ("T.evaluate(0)\n            a[i] = a[i] + x[i, k]", None, "more than values"),
    ],
)  # fmt: skip
def test_several_values_that_rfactor_takes_or_not(body: str, init: str | None, says: str | None) -> None:
    s = _two_results(body) if init is None else _two_results(body, init)
    inner = s.split(s.get_loops("both")[1], [None, 4])[1]
    if says is None:
        s.rfactor(inner, 0)
        return
    with pytest.raises(ScheduleError, match=says):
        s.rfactor(inner, 0)


# ----------------------------------------------------------------------------------- injective


def _for(name: str, extent: int) -> n.For:
    return n.For(n.Var(name), ops.const(0), ops.const(extent), ForKind.SERIAL, n.Evaluate(ops.const(0)))


def test_what_values_determine() -> None:
    a, b, c = _for("a", 5), _for("b", 4), _for("c", 3)
    x, y, z = a.loop_var, b.loop_var, c.loop_var
    loops = [a, b, c]

    def left(*values: n.PrimExpr) -> list[str]:
        return [f.loop_var.name for f in undetermined(values, loops, loops)]

    assert left(x * 12 + y * 3 + z) == []
    assert left(x, y * 3 + z) == []
    assert left(x * 11 + y * 3 + z) == ["a", "b", "c"]  # the terms overlap
    assert left(x, y) == ["c"]
    fused = x * 12 + y * 3 + z
    assert left(fused // 7, fused % 7) == []
    assert left(fused // 14, fused % 14 // 7, fused % 7) == []
    assert left(fused // 14, fused % 7) == ["a", "b", "c"]  # a digit is missing
    assert left(fused % 60) == []
    assert left(fused % 59) == ["a", "b", "c"]


def test_what_values_determine_where_a_condition_holds() -> None:
    a, b, c = _for("a", 5), _for("b", 1), _for("c", 4)
    inner = b.loop_var * 4 + c.loop_var  # a split of a loop of 2 iterations
    value = a.loop_var * 2 + inner
    loops = [a, b, c]
    assert [f.loop_var.name for f in undetermined([value], loops, loops)] == ["a", "c"]
    assert undetermined([value], loops, loops, ops.logical_and(value < 9, inner < 2)) == []
    assert undetermined([value], loops, loops, inner < 3) == [a, c]
