"""The text of functions after lowering, and after single passes.

The texts are in `lower/<case>.txt`. After a wanted change, `UPDATE_GOLDEN=1 pytest tests/golden` writes them
anew: read the difference before committing it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.driver.pipeline import lower_func, stages
from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import PrimFunc
from compiler.tir.transform import tir_passes
from tests.kit.compiler.lowering import (
    arguments,
    assert_agreement,
    assert_same,
    chain,
    conv2d,
    matmul,
    outputs_by_interpreter,
    softmax,
    tile_matmul,
    vectorize_last,
)

_FOLDER = Path(__file__).parent / "lower"
Case = Callable[[], PrimFunc]
CASES: dict[str, Case] = {}
PASSES: dict[str, tuple[str, Case]] = {}


def lowered(make: Case) -> Case:
    """Register a function whose text after all of lowering is kept."""
    CASES[make.__name__] = make
    return make


def after(name: str) -> Callable[[Case], Case]:
    """Register a function whose text after one pass is kept."""

    def register(make: Case) -> Case:
        PASSES[f"{name}__{make.__name__}"] = (name, make)
        return make

    return register


def tiled_matmul(m: int, n: int, k: int, pack: bool = False) -> Schedule:
    """Register tile 6 x 16 in a local cache, k split by 4, columns in parallel."""
    sch = Schedule(matmul(m, n, k))
    tiles = tile_matmul(sch, (6, 16, 4), columns_first=True)
    vectorize_last(sch, tiles.cache)
    if pack:
        panel = sch.cache_read(tiles.block, 1, "global")
        sch.compute_at(panel, tiles.j0)
        vectorize_last(sch, panel)
    sch.unroll(tiles.i1)
    sch.vectorize(tiles.j1)
    sch.parallel(tiles.j0)
    return sch


@after("lower_init")
@lowered
def matmul_as_written() -> PrimFunc:
    return matmul(5, 7, 3)


@lowered
def matmul_tiles_divide() -> PrimFunc:
    return tiled_matmul(12, 32, 8, pack=True).func


@after("split_tails")
@after("compact_buffers")
@lowered
def matmul_tiles_hang_over() -> PrimFunc:
    return tiled_matmul(13, 18, 10, pack=True).func


@after("lower_init")
@lowered
def reduction_fused_with_rows() -> PrimFunc:
    """A loop that is both reduced and not: the init stays a guard."""
    sch = Schedule(matmul(4, 5, 6))
    _, j, k = sch.get_loops(sch.get_block("C"))
    sch.fuse(j, k)
    return sch.func


@after("plan_allocation")
@lowered
def chain_computed_at() -> PrimFunc:
    sch = Schedule(chain(8, 50))
    relu = sch.get_block("relu")
    i, j = sch.get_loops(relu)
    j0, j1 = sch.split(j, [None, 16])
    sch.compute_at(sch.get_block("total"), j0)
    sch.compute_at(sch.get_block("double"), j0)
    sch.vectorize(j1)
    vectorize_last(sch, sch.get_block("total"))
    sch.parallel(i)
    return sch.func


@lowered
def chain_split_in_one_loop() -> PrimFunc:
    """The loop is partitioned: a main part without conditions, and the tail."""
    sch = Schedule(chain(1, 100))
    for name in ("double", "total"):
        sch.compute_inline(sch.get_block(name))
    _, j = sch.get_loops(sch.get_block("relu"))
    _, inner = sch.split(j, [None, 16])
    sch.vectorize(inner)
    return sch.func


@after("hoist_guards")
@lowered
def chain_split_serially() -> PrimFunc:
    """No vectors: the condition becomes the inner loop's bound."""
    sch = Schedule(chain(3, 100))
    for name in ("double", "total"):
        sch.compute_inline(sch.get_block(name))
    i, j = sch.get_loops(sch.get_block("relu"))
    sch.split(sch.fuse(i, j), [None, 7])
    return sch.func


@lowered
def conv_padding_inlined() -> PrimFunc:
    """Tiles away from the edge read without asking whether they are inside."""
    sch = Schedule(conv2d(16, 3, 4))
    sch.compute_inline(sch.get_block("padded"))
    conv = sch.get_block("conv")
    b, f, h, w, rc, rh, rw = sch.get_loops(conv)
    w0, w1 = sch.split(w, [None, 8])
    sch.reorder(b, f, h, w0, rc, rh, rw, w1)
    sch.vectorize(w1)
    sch.decompose_reduction(conv, rc)
    return sch.func


@after("compact_buffers")
@lowered
def conv_padding_computed_at_rows() -> PrimFunc:
    sch = Schedule(conv2d(9, 2, 4, kernel=3, stride=2))
    conv = sch.get_block("conv")
    _, f, h, *_ = sch.get_loops(conv)
    sch.reorder(h, f)
    sch.compute_at(sch.get_block("padded"), h)
    vectorize_last(sch, sch.get_block("padded"))
    return sch.func


@lowered
def softmax_rows() -> PrimFunc:
    sch = Schedule(softmax(4, 20))
    i, _ = sch.get_loops(sch.get_block("out"))
    for name in ("total", "power", "top"):
        sch.compute_at(sch.get_block(name), i)
    for name in ("out", "power"):
        vectorize_last(sch, sch.get_block(name))
    sch.parallel(i)
    return sch.func


@after("unroll")
def rows_under_an_unroll_pragma() -> PrimFunc:
    sch = Schedule(chain(8, 6))
    for name in ("double", "total"):
        sch.compute_inline(sch.get_block(name))
    i, j = sch.get_loops(sch.get_block("relu"))
    _, i1 = sch.split(i, [2, 4])
    sch.annotate(i1, "pragma_auto_unroll_max_step", 6)
    sch.split(j, [3, 2])
    return sch.func


def _compare(name: str, text: str) -> None:
    path = _FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", CASES)
def test_lowered_text(name: str) -> None:
    _compare(name, lower_func(CASES[name]()).script() + "\n")


@pytest.mark.parametrize("name", PASSES)
def test_text_after_a_pass(name: str) -> None:
    wanted, make = PASSES[name]
    title = next(found.title for found in tir_passes().values() if found.function.__name__ == wanted)
    text = next(func.script() for step, func in stages(make()) if step.title == title)
    _compare(name, text + "\n")


@pytest.mark.parametrize("name", CASES)
def test_each_stage_computes_the_same(name: str) -> None:
    assert_agreement(CASES[name]())


@pytest.mark.parametrize("vector_bits", [128, 512])
@pytest.mark.parametrize("name", CASES)
def test_other_vector_widths_compute_the_same(name: str, vector_bits: int) -> None:
    func = CASES[name]()
    args = arguments(func)
    lowered = lower_func(func, vector_bits)
    assert_same(outputs_by_interpreter(lowered, args), outputs_by_interpreter(func, args), f"{vector_bits} bits")


def test_no_text_is_left_over() -> None:
    assert {path.stem for path in _FOLDER.glob("*.txt")} == {*CASES, *PASSES}


def test_lowering_a_lowered_function_changes_nothing() -> None:
    for make in CASES.values():
        func = lower_func(make())
        assert lower_func(func) is func
