"""Sketches for GPUs: points of each run in lock step without a race and give what the unscheduled function gives;
ptxas takes typical ones without spills."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.codegen.nvptx.ptxas import kernel_resources
from compiler.driver.build import compile_artifact, lower
from compiler.interp import interpreter as interp
from compiler.ir.module import IRModule
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from tests.kit.gpu.checks import PTXAS, run_threads
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate
from tuner.space.gpu.hardware import Chip
from tuner.space.sketch import Sketch
from tuner.workloads import WorkloadSpec

SM80 = Target("cuda -arch=sm_80")
TILES = {"tiles", "tiles+double"}
CASES: dict[str, set[str]] = {
    "matmul:32,32,16": TILES,
    "matmul:17,19,11": TILES,
    "matmul:16,32,16:float16": {"mma"},
    "dense:16,16,16:float16": {"mma"},
    "matmul:9,7,5:float16": {"mma"},
    "batch_matmul:2,9,16,8:float16": {"mma"},
    "conv2d:1,8,4,4,8,3,3,2,1:float16": {"mma"},
    "dense:16,24,20": TILES,
    "batch_matmul:2,9,16,8": TILES,
    "matmul:4,8,1024": TILES | {"tiles+parts"},
    "conv2d:1,3,6,7,4,3,3": TILES,
    "conv2d:2,2,7,6,4,3,3,2,1": TILES,
    "depthwise_conv2d:1,2,6,6,3,3": {"plain"},
    "softmax:5,70": {"rows", "rows+kept"},
    "layer_norm:3,40": {"rows", "rows+kept"},
    "row_sum:6,33": {"rows"},
    "row_sum:1,33000": {"rows", "parts"},
    "copy:10": {"threads"},
    "triad:2048": {"threads"},
}


def lowered(func: n.PrimFunc) -> IRModule:
    with SM80:
        return lower(func)


def check_sketches(func: n.PrimFunc, names: set[str], points: int) -> None:
    """Small whole numbers, so that every order of a sum gives the same; float results that are not sums may differ."""
    rng = np.random.default_rng(len(func.params))
    buffers = [func.buffer_map[p] for p in func.params]
    shapes = [([ops.as_int(s) or 0 for s in b.shape], b.dtype) for b in buffers]
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape, dtype in shapes]
    wanted = [a.copy() for a in arrays]
    [(_, plain)] = lower(func).items()
    interp.run(plain, *wanted)
    sketches = generate(func, SM80)
    assert {s.name for s in sketches} == names
    for sketch in sketches:
        for _ in range(points):
            point = random_point(sketch, rng)
            found = [a.copy() for a in arrays]
            run_threads(lowered(at_point(func, sketch, point)), *found)
            text = f"{sketch.name} {sketch.values(point)}"
            np.testing.assert_allclose(found[-1], wanted[-1], rtol=2e-5, atol=1e-5, err_msg=text)
            assert 0 <= sketch.score(point) <= 1


@pytest.mark.parametrize("spec", CASES)
def test_every_sketch_is_right_and_without_races(spec: str) -> None:
    check_sketches(
        WorkloadSpec.parse(spec).prim_func(),
        CASES[spec],
        1 if "33000" in spec or "1024" in spec or "float16" in spec else 2,
    )


def test_what_follows_a_product_is_fused_into_its_tiles() -> None:
    x, w, b = placeholder((12, 8), name="x"), placeholder((8, 20), name="w"), placeholder((20,), name="b")
    out = topi.nn.relu(topi.add(topi.matmul(x, w), b))
    func = create_prim_func([x, w, b, out])
    [sketch] = [s for s in generate(func, SM80) if s.name == "tiles"]
    point = random_point(sketch, np.random.default_rng(0))
    [entry] = compile_artifact(at_point(func, sketch, point), SM80).entries
    assert len(entry.launches) == 2  # the bias and the relu are two steps of te: the first one is fused
    check_sketches(func, TILES, 1)


@pytest.mark.parametrize("spec", ["batch_matmul:70000,2,2,2", "batch_matmul:70000,2,2,2:float16"])
def test_more_batches_than_blocks_along_z(spec: str) -> None:
    func = WorkloadSpec.parse(spec).prim_func()
    [sketch] = generate(func, SM80)
    point = random_point(sketch, np.random.default_rng(0))
    [launch] = compile_artifact(lowered(at_point(func, sketch, point)), SM80).entries[0].launches
    assert launch.grid[1:] == ("1", "1")


def best(sketch: Sketch) -> tuple[int, ...]:
    """The most promising of some points."""
    rng = np.random.default_rng(1)
    points = [p for p in (sketch.random(rng) for _ in range(100)) if p is not None]
    return max(points, key=sketch.score)


@pytest.mark.skipif(PTXAS is None, reason="there is no ptxas on this machine")
@pytest.mark.parametrize(
    ("spec", "arch"),
    [
        ("matmul:4096,4096,4096", "sm_80"),
        ("matmul:4096,4096,4096:float16", "sm_90"),
        ("matmul:4096,4096,4096:float16", "sm_90a"),
        ("conv2d:16,64,56,56,64,3,3", "sm_90"),
        ("conv2d:16,64,56,56,64,3,3:float16", "sm_90"),
        ("softmax:8192,4096", "sm_90"),
        ("layer_norm:8192,4096", "sm_80"),
        ("triad:16777216", "sm_90"),
    ],
)
def test_ptxas_takes_what_is_tried_first_without_spills(spec: str, arch: str) -> None:
    func, target = WorkloadSpec.parse(spec).prim_func(), Target(f"cuda -arch={arch}")
    for sketch in generate(func, target):
        for kernel in kernel_resources(compile_artifact(at_point(func, sketch, best(sketch)), target)):
            assert kernel.stack == kernel.spill_stores == kernel.spill_loads == 0, (sketch.name, kernel)


def test_what_does_not_fit_is_not_allowed() -> None:
    chip = Chip.of(SM80)
    assert chip.resident(256, 128, 32 << 10) == 2
    assert chip.resident(1024, 32, chip.block_shared + 1) == 0
    assert chip.resident(1024, 128, 0) == 0
    assert chip.filled(54, 4) == 0.5
    sketch = next(s for s in generate(WorkloadSpec.parse("matmul:4096,4096,4096").prim_func(), SM80))
    most = [len(d.values) - 1 for d in sketch.decisions]
    assert not sketch.is_allowed(most)  # 32 x 32 threads of 64 sums each do not fit the registers
    assert sketch.is_allowed([2, 1, 3, 3, 0])
