"""The text of a function after each schedule primitive.

The texts are in `schedule/<case>.txt`. After a wanted change, `UPDATE_GOLDEN=1 pytest tests/golden` writes them
anew: read the difference before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compiler.schedule.core.schedule import LoopRV, Schedule, apply_trace
from tests.kit.compiler import tensor_intrins
from tests.kit.compiler.schedules import (
    buffer_cases,  # noqa: F401  (registers its cases)
    loop_cases,  # noqa: F401  (and these)
)
from tests.kit.compiler.schedules import workloads as w
from tests.kit.compiler.schedules.case import CASES, case

_FOLDER = Path(__file__).parent / "schedule"

@case(w.chain)
def untouched(s: Schedule) -> None:
    s.get_loops(s.get_block("B"))


@case(w.matmul)
def split(s: Schedule) -> None:
    i, j, _ = s.get_loops(s.get_block("C"))
    s.split(i, [None, 4])
    s.split(j, [2, None, 3])


@case(w.matmul)
def split_unit(s: Schedule) -> None:
    i, j, _ = s.get_loops(s.get_block("C"))
    s.split(i, [None, 13, 1], preserve_unit_iters=False)
    s.split(j, [11, 1])


@case(w.matmul)
def fuse(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    j0, j1 = s.split(j, [None, 4])
    s.fuse(i, j0)
    s.split(k, [5, 2])
    assert s.get(j1).loop_var.name == "j_1"


@case(w.matmul)
def fuse_what_was_split(s: Schedule) -> None:
    i, j, _ = s.get_loops(s.get_block("C"))
    s.fuse(*s.split(i, [None, 4]))
    s.fuse(*s.split(j, [11, 1]))


@case(w.matmul)
def reorder(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    s.reorder(k, i)
    assert [f.loop_var.name for f in map(s.get, s.get_loops(s.get_block("C")))] == ["k", "j", "i"]
    s.add_unit_loop(j)


@case(w.matmul)
def add_unit_loop(s: Schedule) -> None:
    block = s.get_block("C")
    s.add_unit_loop(block)
    s.add_unit_loop(s.get_loops(block)[0])


@case(w.matmul)
def kinds(s: Schedule) -> None:
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    k0, k1 = s.split(k, [None, 2])
    j0, j1 = s.split(j, [None, 4])
    s.reorder(j0, k0, k1, j1)
    s.parallel(i)
    s.vectorize(j1)
    s.unroll(k1)
    s.annotate(k0, "pragma_note", 3)
    s.annotate(block, "tiles", [4, 2])
    s.annotate(block, "gone", "x")
    s.unannotate(block, "gone")


@case(w.chain)
def bind(s: Schedule) -> None:
    i, j = s.get_loops(s.get_block("D"))
    s.bind(i, "blockIdx.x")
    s.bind(j, "threadIdx.x")


@case(w.blur)
def compute_at(s: Schedule) -> None:
    i, _ = s.get_loops(s.get_block("C"))
    outer, _ = s.split(i, [None, 4])
    s.compute_at(s.get_block("B"), outer)


@case(w.conv)
def compute_at_pad(s: Schedule) -> None:
    loops = s.get_loops(s.get_block("conv2d_nchw"))
    y, x = loops[2:4]
    y0, y1 = s.split(y, [None, 2])
    x0, x1 = s.split(x, [None, 4])
    s.reorder(y0, x0, y1, x1)
    s.compute_at(s.get_block("pad_temp"), x0, preserve_unit_loops=True)


@case(w.matmul_relu)
def reverse_compute_at(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    i0, i1 = s.split(i, [None, 4])
    j0, j1 = s.split(j, [None, 4])
    s.reorder(i0, j0, k, i1, j1)
    s.reverse_compute_at(s.get_block("D"), j0)


@case(w.row_scale)
def reverse_compute_at_row(s: Schedule) -> None:
    s.reverse_compute_at(s.get_block("D"), s.get_loops(s.get_block("S"))[0])


@case(w.chain)
def compute_inline(s: Schedule) -> None:
    s.compute_inline(s.get_block("B"))
    s.compute_inline(s.get_block("C"))


@case(w.conv)
def compute_inline_pad(s: Schedule) -> None:
    s.compute_inline(s.get_block("pad_temp"))


@case(w.chain)
def reverse_compute_inline(s: Schedule) -> None:
    s.reverse_compute_inline(s.get_block("C"))
    s.reverse_compute_inline(s.get_block("D"))


@case(w.matmul)
def cache_read(s: Schedule) -> None:
    s.cache_read(s.get_block("C"), 1, "shared")


@case(w.matmul)
def cache_read_at(s: Schedule) -> None:
    block = s.get_block("C")
    copy = s.cache_read(block, s.read_index(block, "B"), "global")
    i, j, k = s.get_loops(block)
    j0, j1 = s.split(j, [None, 4])
    s.reorder(j0, i, k, j1)
    s.compute_at(copy, j0)


@case(w.chain)
def cache_read_inside(s: Schedule) -> None:
    """The copy of what is made in a loop stands in that loop."""
    i, _ = s.get_loops(s.get_block("C"))
    outer, _ = s.split(i, [None, 4])
    s.compute_at(s.get_block("B"), outer)
    s.cache_read(s.get_block("C"), 0, "local")


@case(w.matmul)
def cache_write(s: Schedule) -> None:
    s.cache_write(s.get_block("C"), 0, "local")


@case(w.matmul)
def cache_write_at(s: Schedule) -> None:
    block = s.get_block("C")
    copy = s.cache_write(block, 0, "local")
    i, j = s.get_loops(copy)
    i0, i1 = s.split(i, [None, 4])
    j0, j1 = s.split(j, [None, 4])
    s.reorder(i0, j0, i1, j1)
    s.compute_at(block, j0)


@case(w.matmul)
def decompose_reduction(s: Schedule) -> None:
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    i0, i1 = s.split(i, [None, 4])
    k0, k1 = s.split(k, [None, 4])
    s.reorder(i0, k0, j, k1, i1)
    s.decompose_reduction(block, k0)


@case(w.row_sum)
def rfactor(s: Schedule) -> None:
    _, r = s.get_loops(s.get_block("S"))
    _, inner = s.split(r, [None, 4])
    s.rfactor(inner, 0)


@case(w.row_sum)
def rfactor_outer(s: Schedule) -> None:
    _, r = s.get_loops(s.get_block("S"))
    outer, _ = s.split(r, [3, 5])
    s.rfactor(outer, -1)


@case(w.chain)
def set_scope(s: Schedule) -> None:
    s.set_scope(s.get_block("B"), 0, "local")


@case(w.chain)
def storage_align(s: Schedule) -> None:
    block = s.get_block("B")
    s.storage_align(block, 0, -2, 4, 1)
    s.storage_align(block, 0, 0, 8, 3)


@case(lambda: w.matmul(5, 13, 6))
def transform_layout(s: Schedule) -> None:
    block = s.get_block("C")
    copy = s.cache_read(block, 1, "global")
    i, j, k = s.get_loops(block)
    width = s.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    j0, j1, j2 = s.split(j, [None, 2, width])
    s.reorder(j0, i, j1, k, j2)
    s.compute_at(copy, j0)
    s.transform_layout(copy, ("write", 0), lambda d, e, size: (e // size, d, e % size), sizes=[width])


@case(lambda: w.matmul(12, 16, 10))
def sample(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    s.split(i, s.sample_perfect_tile(i, 2, decision=[3, 4]))
    s.split(j, [None, s.sample_categorical([2, 4, 8], [0.25, 0.5, 0.25], decision=2)])
    s.split(k, s.sample_tile(k, 3, decision=[2, 3]))


def _tile(s: Schedule) -> LoopRV:
    """Block C in tiles of 4, 4, 2; the outermost loop of a tile."""
    pairs = [s.split(loop, [None, size]) for loop, size in zip(s.get_loops(s.get_block("C")), (4, 4, 2))]
    s.reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    return pairs[0][1]


@case(w.matmul)
def blockize(s: Schedule) -> None:
    s.blockize(_tile(s))


@case(w.chain)
def blockize_blocks(s: Schedule) -> None:
    b, c = s.get_block("B"), s.get_block("C")
    s.compute_at(b, s.get_loops(c)[0])
    s.blockize([b, c])


@case(lambda: w.matmul(8, 8, 4))
def tensorize(s: Schedule) -> None:
    s.tensorize(_tile(s), tensor_intrins.register_matmul(4, 4, 2))


@case(w.matmul)
def reorder_block_iter_var(s: Schedule) -> None:
    s.reorder_block_iter_var(s.get_block("C"), [1, 2, 0])


@case(w.blur)
def reindex(s: Schedule) -> None:
    s.reindex(s.get_block("C"), ("read", 0))


@case(w.chain)
def sample_compute_location(s: Schedule) -> None:
    s.compute_at(s.get_block("B"), s.sample_compute_location(s.get_block("B"), decision=0))
    s.enter_postproc()


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    _, sch = CASES[name]()
    text = f"{sch.trace.to_python()}\n\n{w.body(sch)}"
    path = _FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", CASES)
def test_the_meaning_is_kept(name: str) -> None:
    func, sch = CASES[name]()
    if name != "bind":  # the interpreter runs one thread
        w.check_same(sch, func)


@pytest.mark.parametrize("name", CASES)
def test_replay_gives_the_identical_function(name: str) -> None:
    func, sch = CASES[name]()
    again = apply_trace(func, type(sch.trace).from_json(sch.trace.to_json()))
    assert again.func.script() == sch.func.script()
    assert again.trace == sch.trace


@pytest.mark.parametrize("name", CASES)
def test_the_python_of_a_trace_makes_the_same_function(name: str) -> None:
    func, sch = CASES[name]()
    again = Schedule(func)
    exec(sch.trace.to_python("again"), {"again": again})
    assert again.func.script() == sch.func.script()


def test_every_text_has_its_case() -> None:
    assert {path.stem for path in _FOLDER.glob("*.txt")} == set(CASES)
