"""Illegal steps: each raises a ScheduleError that names the primitive, the loop or block, the rule, and shows the
loops; and leaves the schedule as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w

Steps = Callable[[Schedule], object]


def _layout(text: str) -> Steps:
    return lambda s: s.transform_layout(s.get_block("B"), ("write", 0), text)


def _symbolic() -> PrimFunc:
    size = te.size_var("n")
    a = te.placeholder((size,), name="A")
    return create_prim_func([a, te.compute((size,), lambda i: a[i] + 1.0, name="B")])


def _split_bound(s: Schedule) -> object:
    i, _j, _ = s.get_loops("C")
    s.parallel(i)
    return s.split(i, [None, 2])


def _split_gone(s: Schedule) -> object:
    i, _, _ = s.get_loops("C")
    s.split(i, [None, 2])
    return s.split(i, [None, 2])


def _annotate_gone(s: Schedule) -> object:
    i, _, _ = s.get_loops("C")
    s.split(i, [None, 4])
    return s.annotate(i, "x", 1)


def _fuse_across(s: Schedule) -> object:
    i, _, k = s.get_loops("C")
    return s.fuse(i, k)


def _reorder_branches(s: Schedule) -> object:
    return s.reorder(s.get_loops("B")[0], s.get_loops("C")[0])


def _reorder_across_blocks(s: Schedule) -> object:
    i, r = s.get_loops("C")
    s.compute_at(s.get_block("B"), i)
    return s.reorder(r, i)


def _reorder_late_init(s: Schedule) -> object:
    i, r = s.get_loops("S")
    outer, inner = s.split(s.fuse(i, r), [None, 5])
    return s.reorder(inner, outer)


def _left_alone(s: Schedule) -> list[LoopRV]:
    """S computed for every element of D, which then goes elsewhere: the loops of S, of which j repeats it."""
    s.compute_at(s.get_block("S"), s.get_loops("D")[1])
    s.compute_at(s.get_block("D"), s.get_loops("E")[0])
    return s.get_loops("S")


def _reorder_repeats(s: Schedule) -> object:
    _, j, r = _left_alone(s)
    return s.reorder(r, j)


def _parallel_overlap(s: Schedule) -> object:
    return s.parallel(_left_alone(s)[1])


def _decompose_outside_repeats(s: Schedule) -> object:
    i, j = s.get_loops("D")
    s.compute_at(s.get_block("S"), j)
    return s.decompose_reduction(s.get_block("S"), i)


def _decompose_inside(s: Schedule) -> object:
    _, _, k = s.get_loops("C")
    _, inner = s.split(k, [None, 2])
    return s.decompose_reduction(s.get_block("C"), inner)


def _decompose_twice(s: Schedule) -> object:
    block = s.get_block("C")
    s.decompose_reduction(block, s.get_loops(block)[2])
    return s.decompose_reduction(block, s.get_loops(block)[2])


def _decompose_fused(s: Schedule) -> object:
    block = s.get_block("S")
    return s.decompose_reduction(block, s.fuse(*s.get_loops(block)))


def _parallel_twice(s: Schedule) -> object:
    i, j, _ = s.get_loops("C")
    s.parallel(i)
    return s.parallel(j)


def _inline_output(s: Schedule) -> object:
    return s.compute_inline(s.get_block("D"))


def _compute_at_own_loop(s: Schedule) -> object:
    return s.compute_at(s.get_block("B"), s.get_loops("B")[0])


def _reverse_unfinished(s: Schedule) -> object:
    _, _, k = s.get_loops("C")
    return s.reverse_compute_at(s.get_block("D"), k)


def _reverse_window(s: Schedule) -> object:
    (i,) = s.get_loops("B")
    return s.reverse_compute_at(s.get_block("C"), i)


def _reverse_partial_reduction(s: Schedule) -> object:
    copy = s.cache_read(s.get_block("S"), 0, "global")
    _, j = s.get_loops(copy)
    return s.reverse_compute_at(s.get_block("S"), j)


def _bad_place(s: Schedule) -> object:
    return s.compute_at(s.get_block("B"), s.get_loops("C")[0], index=1)


def _rfactor_data(s: Schedule) -> object:
    return s.rfactor(s.get_loops("S")[0], 0)


def _rfactor_axis(s: Schedule) -> object:
    return s.rfactor(s.get_loops("S")[1], 3)


def _rfactor_decomposed(s: Schedule) -> object:
    block = s.get_block("S")
    r = s.get_loops(block)[1]
    s.decompose_reduction(block, r)
    return s.rfactor(r, 0)


def _cache_write_update(s: Schedule) -> object:
    """C is read between its first and its second writer."""
    block = s.get_block("C")
    copy = s.cache_write(block, 0, "local")
    return s.cache_read(copy, 3, "local")


CASES: list[tuple[str, Callable[[], PrimFunc], Steps, str]] = [
    ("get_block", w.chain, lambda s: s.get_block("X"), "there is no block 'X'"),
    ("split", w.matmul, lambda s: s.split(s.get_loops("C")[0], [2, 3]), "make 6 of the 13 iterations of loop 'i'"),
    ("split", w.matmul, lambda s: s.split(s.get_loops("C")[0], [None, None]), "more than one factor of loop 'i'"),
    ("split", w.matmul, lambda s: s.split(s.get_loops("C")[0], [None, 0]), "must be positive"),
    ("split", w.matmul, lambda s: s.split(s.get_loops("C")[0], [None, 1 << 33]), "too large"),
    ("split", w.matmul, lambda s: s.split(s.get_loops("C")[0], []), "no factors"),
    ("split", _symbolic, lambda s: s.split(s.get_loops("B")[0], [4, 4]), "whose extent is symbolic"),
    ("split", w.matmul, _split_bound, "loop 'i' is parallel and cannot be split"),
    ("split", w.matmul, _split_gone, "loop 'i' is gone"),
    ("fuse", w.matmul, _fuse_across, "loop 'k' is not right and alone inside loop 'i'"),
    ("fuse", w.matmul, lambda s: s.fuse(), "no loops"),
    ("reorder", w.chain, _reorder_branches, "not nested in one another"),
    ("reorder", w.blur, _reorder_across_blocks, "more than one statement"),
    ("reorder", w.row_sum, _reorder_late_init, "its init would come too late"),
    ("reorder", w.row_scale_plus, _reorder_repeats, "loop 'j' visits elements of block 'S' again"),
    ("reorder", w.matmul, lambda s: s.reorder(*s.get_loops("C")[:1] * 2), "given twice"),
    ("add_unit_loop", w.matmul, lambda s: s.add_unit_loop(s.get_block("root")), "root"),
    ("parallel", w.matmul, lambda s: s.parallel(s.get_loops("C")[2]), "reduction axis 'v_k' of block 'C'"),
    ("parallel", w.matmul, _parallel_twice, "loop 'i' around loop 'j' is parallel already"),
    ("parallel", w.row_scale_plus, _parallel_overlap, "add to the same elements of 'S'"),
    ("vectorize", w.matmul, lambda s: s.vectorize(s.get_loops("C")[2]), "reduction axis 'v_k' of block 'C'"),
    ("vectorize", _symbolic, lambda s: s.vectorize(s.get_loops("B")[0]), "not constant"),
    ("unroll", _symbolic, lambda s: s.unroll(s.get_loops("B")[0]), "not constant"),
    ("bind", w.chain, lambda s: s.bind(s.get_loops("B")[0], "threadIdx.w"), "no thread axis 'threadIdx.w'"),
    ("bind", w.row_sum, lambda s: s.bind(s.get_loops("S")[1], "blockIdx.x"), "reduction axis 'v_r'"),
    ("unannotate", w.chain, lambda s: s.unannotate(s.get_block("B"), "x"), "no annotation 'x'"),
    ("compute_inline", w.chain, _inline_output, "an argument of the function"),
    ("compute_inline", w.matmul_relu, lambda s: s.compute_inline(s.get_block("C")), "block 'C' is a reduction"),
    ("reverse_compute_inline", w.matmul_relu, lambda s: s.reverse_compute_inline(s.get_block("D")), "a reduction"),
    ("reverse_compute_inline", w.blur, lambda s: s.reverse_compute_inline(s.get_block("C")), "a reduction"),
    ("reverse_compute_inline", w.chain, lambda s: s.reverse_compute_inline(s.get_block("B")), "no block makes"),
    ("compute_at", w.chain, lambda s: s.compute_at(s.get_block("D"), s.get_loops("C")[0]), "argument of the function"),
    ("compute_at", w.chain, lambda s: s.compute_at(s.get_block("B"), s.get_loops("D")[0]), "outside loop 'i'"),
    ("compute_at", w.chain, _compute_at_own_loop, "in loop 'i' already"),
    ("compute_at", w.blur, _bad_place, "no place for the block"),
    ("reverse_compute_at", w.matmul_relu, _reverse_unfinished, "is not finished there"),
    ("reverse_compute_at", w.blur, _reverse_window, "does not read 'B' element by element"),
    ("reverse_compute_at", w.row_sum, _reverse_partial_reduction, "makes only a part"),
    ("reverse_compute_at", w.chain, lambda s: s.reverse_compute_at("D", s.get_loops("B")[0]), "no block in"),
    ("cache_read", w.matmul, lambda s: s.cache_read(s.get_block("C"), 2, "local"), "reads no buffer number 2"),
    ("cache_read", w.matmul, lambda s: s.cache_read(s.get_block("C"), 0, "disk"), "no memory 'disk'"),
    ("cache_write", w.matmul, lambda s: s.cache_write(s.get_block("C"), 1, "local"), "writes no buffer number 1"),
    ("cache_read", w.matmul, _cache_write_update, "reads no buffer number 3"),
    ("set_scope", w.matmul, lambda s: s.set_scope(s.get_block("C"), 0, "local"), "an argument of the function"),
    ("decompose_reduction", w.chain, lambda s: s.decompose_reduction(s.get_block("B"), s.get_loops("B")[0]), "no init"),
    ("decompose_reduction", w.matmul, _decompose_inside, "runs along a reduction axis of block 'C'"),
    ("decompose_reduction", w.matmul, _decompose_twice, "no init"),
    ("decompose_reduction", w.row_sum, _decompose_fused, "a data axis and a reduction axis at once"),
    ("decompose_reduction", w.row_scale, _decompose_outside_repeats, "visits elements of block 'S' again"),
    ("rfactor", w.row_sum, _rfactor_data, "does not run along reduction axes only"),
    ("rfactor", w.row_sum, _rfactor_axis, "factor_axis 3 is outside the 2 dimensions"),
    ("rfactor", w.row_sum, _rfactor_decomposed, "no reduction with its init"),
    ("transform_layout", w.chain, _layout("lambda i, j: (i, j // 2)"), "it loses index 1"),
    ("transform_layout", w.chain, _layout("lambda i, j: (i + j,)"), "it loses index 0"),
    ("transform_layout", w.chain, _layout("lambda i, j: (i - 3, j)"), "constant extents from 0 up"),
    ("transform_layout", w.chain, _layout("lambda i, j: (i // 0, i % 3, j)"), "no positive constant"),
    ("transform_layout", w.chain, _layout("lambda i, j: (i // j, i % j, j)"), "no positive constant"),
    ("transform_layout", w.chain, _layout("lambda i: i"), "takes 1 arguments, 2 are needed"),
    ("transform_layout", w.chain, _layout("lambda i, j: (open('x'), i, j)"), "holds more than + - * // %"),
    ("transform_layout", w.chain, _layout("lambda i, j: (i, j, k)"), "holds more than + - * // %"),
    ("transform_layout", w.chain, _layout("(" * 900), "cannot be read"),
    ("transform_layout", w.chain, _layout("1"), "is no lambda"),
    ("transform_layout", w.chain, lambda s: s.transform_layout(s.get_block("D"), "D", lambda i, j: (j, i)), "argument"),
    ("sample_categorical", w.chain, lambda s: s.sample_categorical([1, 2], [1.0]), "probs must be 2 numbers"),
    ("sample_categorical", w.chain, lambda s: s.sample_categorical([1, 2], [1, 1], 2), "no position"),
    ("sample_perfect_tile", w.matmul, lambda s: s.sample_perfect_tile(s.get_loops("C")[0], 2, decision=[3, 4]), "13"),
    ("sample_tile", w.matmul, lambda s: s.sample_tile(s.get_loops("C")[0], 2, decision=[14]), "at most 13"),
    ("sample_tile", w.matmul, lambda s: s.sample_tile(s.get_loops("C")[0], 0), "must be positive"),
    ("sample_perfect_tile", _symbolic, lambda s: s.sample_perfect_tile(s.get_loops("B")[0], 2), "not constant"),
    ("sample_partitioned_tile", w.matmul,
     lambda s: s.sample_partitioned_tile(s.get_loops("C")[2], 2, 1, 5, [5, 2]), "no 5 iterations in its last"),
    ("sample_partitioned_tile", w.matmul,
     lambda s: s.sample_partitioned_tile(s.get_loops("C")[2], 2, 2, 5), "from 0 to 1"),
    ("read_at", w.chain, lambda s: s.read_at(s.get_loops("B")[0], "C", 0, "local"), "is not in loop"),
    ("read_at", w.blur, lambda s: s.read_at(s.get_loops("C")[0], "C", 5, "local"), "reads no buffer number 5"),
    ("write_at", w.matmul, lambda s: s.write_at(s.get_loops("C")[2], "C", 0, "local"), "is not finished"),
    ("unsafe_hide_buffer_access", w.chain, lambda s: s.unsafe_hide_buffer_access("B", "read", [1]), "no number 1"),
    ("sample_compute_location", w.chain, lambda s: s.sample_compute_location("B", 9), "9"),
    ("get_loops", w.chain, lambda s: s.get_loops(BlockRV(7)), "b7 is no block of this schedule"),
    ("get_child_blocks", w.chain, lambda s: s.get_child_blocks(LoopRV(7)), "l7 is no loop of this schedule"),
    ("get_producers", w.chain, lambda s: s.get_producers("root"), "the root block has no other block beside it"),
    ("get_consumers", w.chain, lambda s: s.get_consumers("root"), "the root block has no other block beside it"),
    ("get_output_blocks", w.chain, lambda s: s.get_output_blocks(BlockRV(7)), "b7 is no block of this schedule"),
    ("annotate", w.chain, lambda s: s.annotate(LoopRV(7), "x", 1), "l7 is no loop of this schedule"),
    ("annotate", w.matmul, _annotate_gone, "loop 'i' is gone"),
    ("blockize", w.chain, lambda s: s.blockize(["B", "D"]), "C"),
    ("tensorize", w.chain, lambda s: s.tensorize("B", "test.none"), "there is no tensor intrinsic 'test.none'"),
    ("reorder_block_iter_var", w.chain, lambda s: s.reorder_block_iter_var("B", [0, 0]), "2"),
    ("reindex", w.chain, lambda s: s.reindex("B", ("read", 3)), "has no read buffer number 3"),
    ("reindex_cache_read", w.matmul, lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j, k: (i + k,)),
     "in one place"),
    ("reindex_cache_write", w.matmul, lambda s: s.reindex_cache_write("C", 0, "local", lambda i, j, k: k), "reduction"),
    ("transform_block_layout", w.chain, lambda s: s.transform_block_layout("B", lambda i, j: i), "j is lost"),
    ("cache_index", w.gathered, lambda s: s.cache_index("C", "disk"), "no memory 'disk'"),
    ("storage_align", w.chain, lambda s: s.storage_align("D", 0, 0, 8, 1), "argument of the function"),
    ("unsafe_set_dtype", w.chain, lambda s: s.unsafe_set_dtype("D", 0, "float64"), "argument of the function"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_an_illegal_step_says_what_is_wrong(number: int) -> None:
    primitive, make, steps, rule = CASES[number]
    with pytest.raises(ScheduleError) as caught:
        steps(Schedule(make(), seed=0))
    message = caught.value.message
    assert message.startswith(f"{primitive}: ")
    assert rule in message.splitlines()[0]
    assert "block " in message.partition("\n")[2]  # the loops are shown


def test_a_refused_step_changes_nothing() -> None:
    s = Schedule(w.matmul())
    k = s.get_loops("C")[2]
    func, trace = s.func, s.trace
    with pytest.raises(ScheduleError):
        s.vectorize(k)
    assert s.func is func
    assert s.trace == trace


def test_the_loops_are_shown_with_a_mark() -> None:
    s = Schedule(w.matmul())
    i, _j, k = s.get_loops("C")
    s.parallel(i)
    with pytest.raises(ScheduleError) as caught:
        s.vectorize(k)
    assert caught.value.message.splitlines()[1:] == [
        "    for i in 13 parallel:",
        "      for j in 11:",
        "        for k in 10:                    <--",
        "          block C",
    ]
    assert caught.value.hint == "rfactor the loop first, or take a loop over a data axis"
