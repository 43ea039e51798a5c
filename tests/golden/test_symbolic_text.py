"""The text of functions with symbolic shapes after lowering: main loops that ask nothing, vectors for the tails.

The texts are in `symbolic/<case>.txt`; `UPDATE_GOLDEN=1 pytest tests/golden` writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.driver.pipeline import lower_func
from compiler.schedule.core.schedule import Schedule
from compiler.te.operation import size_var
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.lowering import chain, in_tiles, matmul, softmax, tile_matmul

_FOLDER = Path(__file__).parent / "symbolic"


def elementwise_split() -> PrimFunc:
    sch = Schedule(chain(4, size_var("n")))  # type: ignore[arg-type]
    for name in ("double", "total"):
        sch.compute_inline(sch.get_block(name))
    sch.vectorize(sch.split(sch.get_loops(sch.get_block("relu"))[1], [None, 16])[1])
    return sch.func


def chain_computed_at_tiles() -> PrimFunc:
    sch = Schedule(chain(size_var("n"), size_var("m")))  # type: ignore[arg-type]
    sch.compute_inline(sch.get_block("double"))
    in_tiles(sch, "total", "relu")
    return sch.func


def matmul_tiles() -> PrimFunc:
    sch = Schedule(matmul(size_var("n"), size_var("m"), size_var("d")))  # type: ignore[arg-type]
    tiles = tile_matmul(sch, (4, 16, 2))
    for loop in (tiles.j1, sch.get_loops(tiles.cache)[-1]):
        sch.vectorize(loop)
    sch.unroll(tiles.i1)
    sch.unroll(tiles.k1)
    return sch.func


def softmax_computed_at_rows() -> PrimFunc:
    sch = Schedule(softmax(size_var("n"), size_var("m")))  # type: ignore[arg-type]
    i, j = sch.get_loops(sch.get_block("out"))
    _i0, i1 = sch.split(i, [None, 4])
    sch.vectorize(sch.split(j, [None, 16])[1])
    for name in ("total", "power", "top"):
        sch.compute_at(sch.get_block(name), i1)
    return sch.func


CASES: list[Callable[[], PrimFunc]] = [
    elementwise_split,
    chain_computed_at_tiles,
    matmul_tiles,
    softmax_computed_at_rows,
]


@pytest.mark.parametrize("make", CASES)
def test_lowered_text(make: Callable[[], PrimFunc]) -> None:
    path = _FOLDER / f"{make.__name__}.txt"
    text = lower_func(make()).script() + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_no_text_is_left_over() -> None:
    assert {path.stem for path in _FOLDER.glob("*.txt")} == {make.__name__ for make in CASES}
