"""Batches of products on Intel's matrix unit, however their rows and columns lie."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.narrow.amx_in_software import target_with_tiles
from tests.kit.compiler.narrow.products import bits, computed, numbers
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate
from tuner.space.sketch import Sketch

SAPPHIRE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2")
LAYOUTS = {"by head": "h r c", "by row": "r h c"}  # head, row and column: the order of a matrix's dimensions


def batch(
    heads: int, rows: int, columns: int, depth: int, left: str, right: str, turned: bool, finish: bool
) -> PrimFunc:
    """Z[h, i, j] = Σ A[h, i, k] · B[h, k, j], each where its layout says; B by columns where it is turned."""

    def operand(layout: str, size: tuple[int, int], name: str):  # type: ignore[no-untyped-def]
        shape = {"h": heads, "r": size[0], "c": size[1]}
        return placeholder([shape[axis] for axis in LAYOUTS[layout].split()], "bfloat16", name)

    x = operand(left, (rows, depth), "x")
    y = operand(right, (columns, depth) if turned else (depth, columns), "y")
    k = reduce_axis((0, depth), "k")

    def value(h, i, j):  # type: ignore[no-untyped-def]
        place = {"h": h, "r": i, "c": k}
        other = {"h": h, "r": j if turned else k, "c": k if turned else j}
        a = x[tuple(place[axis] for axis in LAYOUTS[left].split())]
        b = y[tuple(other[axis] for axis in LAYOUTS[right].split())]
        return te_sum(a.astype("float32") * b.astype("float32"), axis=k)

    z = compute((heads, rows, columns), value, name="z")
    return create_prim_func([x, y, topi.cast(topi.multiply(z, 0.5), "bfloat16") if finish else z])


def tiles(func: PrimFunc) -> Sketch:
    [sketch] = [s for s in generate(func, SAPPHIRE) if s.name == "amx_bf16_windows"]
    return sketch


def operands(func: PrimFunc, rng: np.random.Generator) -> list[np.ndarray]:
    return [
        bits(rng.uniform(-1, 1, [int(size) for size in buffer.shape])) for buffer in list(func.buffer_map.values())[:2]
    ]


def expected(held: list[np.ndarray], left: str, right: str, turned: bool) -> np.ndarray:
    x, y = (numbers(a).astype("float64") for a in held)
    x = x if left == "by head" else x.transpose(1, 0, 2)
    y = y if right == "by head" else y.transpose(1, 0, 2)
    return x @ (y.transpose(0, 2, 1) if turned else y)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_batches_are_multiplied_in_tiles(left: str, right: str, turned: bool) -> None:
    func = batch(3, 16, 32, 64, left, right, turned, finish=False)
    sketch, rng = tiles(func), np.random.default_rng(7)
    for _ in range(2):
        held, out = operands(func, rng), np.zeros((3, 16, 32), "float32")
        run(lower_func(at_point(func, sketch, random_point(sketch, rng)), 512), *held, out)
        np.testing.assert_allclose(out, expected(held, left, right, turned), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_machine_code_gives_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, rng = target_with_tiles(monkeypatch, cores=2), np.random.default_rng(seed)
    left, right = rng.choice(list(LAYOUTS), 2)
    turned, finish = bool(rng.integers(2)), bool(rng.integers(2))
    heads, rows = int(rng.integers(2, 5)), int(rng.choice([7, 14, 16, 24, 32, 48]))
    columns, depth = 16 * int(rng.integers(1, 6)), 32 * int(rng.integers(1, 5))
    func = batch(heads, rows, columns, depth, left, right, turned, finish)
    sketch = tiles(func)
    made = at_point(func, sketch, random_point(sketch, rng))
    held = operands(func, rng)
    wanted = expected(held, left, right, turned) * (0.5 if finish else 1.0)
    found = computed(made, target, [*held, np.zeros(wanted.shape)]).astype("float32")
    np.testing.assert_allclose(found, wanted, rtol=1e-2 if finish else 1e-4, atol=1e-3)


def test_rows_that_fill_no_tile_are_filled_and_odd_columns_take_vectors() -> None:
    def names(rows: int, columns: int) -> list[str]:
        func = batch(2, rows, columns, 64, "by head", "by row", turned=False, finish=False)
        return [sketch.name for sketch in generate(func, SAPPHIRE)]

    assert names(17, 32)[0] == "amx_bf16_filled"
    assert not any("amx" in name for name in names(17, 24))
