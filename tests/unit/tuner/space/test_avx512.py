"""Sketches for CPUs with AVX-512: the best drafts use its vectors, fit its 32 registers and mask the tails."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.target.target import Target
from tests.kit.compiler.narrow.products import product
from tests.kit.tuner.sketch_points import at_point
from tuner.space.generate import generate
from tuner.workloads import WorkloadSpec


@pytest.mark.parametrize("cpu", ["skylake-avx512", "sapphirerapids"])
def test_the_best_draft_of_an_odd_product(cpu):
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=2")
    func = product((509, 1021, 257), "float32", "float32", "float32")
    [sketch] = [s for s in generate(func, target) if s.name == "panels+pack2"]
    points = {sketch.random(np.random.default_rng(seed)) for seed in range(100)} - {None}
    best = max(points, key=sketch.score)
    assert sketch.values(best)["rows"] * sketch.values(best)["vectors"] > 16
    scheduled = at_point(func, sketch, best)
    asm = compile_artifact(scheduled, target, name="main", keep=("asm",)).blobs["asm"].decode()
    inner = max(re.split(r"\.LBB\w+:", asm), key=lambda loop: loop.count("vfmadd"))
    products = re.findall(r"vfmadd\w+\s.*", inner)
    assert len(products) > 16
    assert all("%zmm" in line for line in products)
    assert not re.search(r"zmm\d+, [-\d]*\(%rsp\)", inner)  # nothing spilled
    assert "{%k" in asm


def judge(cpu: str, name: str = "panels+pack"):
    func = product((1024, 1024, 1024), "float32", "float32", "float32")
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=1")
    return next(s for s in generate(func, target) if s.name == name)


def values(rows, vectors, panel):
    return {"rows": rows, "vectors": vectors, "panel": panel, "unroll": 1}


def test_tiles_whose_sums_would_be_spilled_are_not_built():
    sketch = judge("sapphirerapids")
    assert all(sketch.allowed(values(*tile)) for tile in ((6, 4, 4), (14, 2, 8), (16, 1, 8)))
    assert not any(sketch.allowed(values(*tile)) for tile in ((7, 4, 4), (10, 3, 4)))
    assert judge("x86-64-v3").allowed(values(5, 3, 4))  # 16 registers: as before, though one is too few


def test_panels_of_half_a_second_level_are_near():
    near, far = values(6, 4, 4), values(6, 4, 8)  # 1 MiB, 2 MiB
    server, desktop = judge("sapphirerapids"), judge("x86-64-v3")
    assert server.draft(near) > 1.1 * server.draft(far)
    assert desktop.draft(values(6, 2, 2)) > 1.1 * desktop.draft(values(6, 2, 8))  # 256 KiB, 1 MiB of narrower vectors


def test_columns_that_do_not_fill_vectors_cost_little_where_vectors_have_masks():
    func = product((509, 1021, 257), "float32", "float32", "float32")
    share = {}
    for cpu in ("sapphirerapids", "x86-64-v3"):
        target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=1")
        plain = next(s for s in generate(func, target) if s.name == "panels+pack")
        whole = next(s for s in generate(product((509, 1024, 257), *["float32"] * 3), target) if s.name == plain.name)
        tile = {"rows": 5, "vectors": 2, "panel": 4}
        share[cpu] = plain.draft(tile) / whole.draft(tile)
    assert share["sapphirerapids"] > 0.95
    assert share["x86-64-v3"] < 0.97


@pytest.mark.parametrize(("cpu", "by_rows"), [("sapphirerapids", True), ("x86-64-v3", False)])
def test_columns_are_packed_row_by_row_where_a_vector_is_a_line(cpu, by_rows):
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=1")
    func = product((64, 256, 32), "float32", "float32", "float32")
    assert packs_by_rows(func, target, "panels+pack") == by_rows
    image = WorkloadSpec.parse("conv2d:1,32,14,14,64,1,1,1,0").prim_func()  # read as it lies, with zeros behind it
    filled = next(s.name for s in generate(image, target) if s.name.startswith("panels+pack+flat"))
    assert filled == ("panels+pack+flat" if by_rows else "panels+pack+flat+fill")
    assert packs_by_rows(image, target, filled) == by_rows


def test_columns_that_are_gathered_are_packed_tile_by_tile():
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1")
    strided = WorkloadSpec.parse("conv2d:1,16,28,28,16,3,3,2,1").prim_func()
    assert not packs_by_rows(strided, target, "panels+pack+flat")


def packs_by_rows(func, target, name):
    """Whether the first copy into panels runs along all tiles of a panel in each row."""
    [sketch] = [s for s in generate(func, target) if s.name == name]
    some = (sketch.random(np.random.default_rng(seed)) for seed in range(99))
    point = next(p for p in some if p is not None and sketch.values(p)["panel"] > 1)
    text = at_point(func, sketch, point).script()
    found = re.search(r"for (\w+(?:, \w+)+) in T.grid\(.*\n +for (\w+)_1 in T.unroll", text)
    assert found is not None
    return found[1].endswith(f", {found[2]}_0")
