"""Columns of a convolution that are gathered into panels at once, on CPUs whose vectors are 64 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.workloads import WorkloadSpec

NARROW = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=2")
WIDE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=2")
HERE = Target("llvm -num-cores=2").resolved()


def packed(func: PrimFunc, target: Target) -> list[Sketch]:
    return [s for s in generate(func, target) if "+pack" in s.name and "+flat" in s.name]


def scheduled(func: PrimFunc, sketch: Sketch, seed: int = 0) -> PrimFunc:
    point = random_point(sketch, np.random.default_rng(seed))
    return at_point(func, sketch, point)


def computed(func: PrimFunc, arrays: list[np.ndarray]) -> np.ndarray:
    held = [array(a) for a in arrays]
    load_artifact(compile_artifact(func, HERE, name="main"))["main"](*held)
    return held[-1].numpy()


def with_stages() -> PrimFunc:
    x, w, bias = placeholder((1, 20, 15, 15), name="x"), placeholder((24, 20, 3, 3), name="w"), placeholder((24, 1, 1))
    out = topi.nn.conv2d_nchw(topi.nn.relu(x), w, stride=2, padding=1, dilation=1)
    return create_prim_func([x, w, bias, topi.nn.relu(topi.add(out, bias))])


@pytest.mark.parametrize(
    "func",
    [
        WorkloadSpec.parse("conv2d:1,20,15,15,24,3,3,2").prim_func(),
        WorkloadSpec.parse("conv2d:2,68,9,12,20,1,1,2,0").prim_func(),
        WorkloadSpec.parse("conv2d:1,5,9,9,9,3,3").prim_func(),
        with_stages(),
    ],
    ids=["strides", "1×1 with strides", "no strides", "stages around it"],
)
def test_panels_hold_what_the_convolution_reads(func: PrimFunc) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, [int(s) for s in func.buffer_map[p].shape]).astype("float32") for p in func.params]
    expected = computed(func, arrays)
    sketches = packed(func, WIDE)
    assert {s.name.partition("+")[0] for s in sketches} == {"panels", "rows"}
    for sketch in sketches:
        got = computed(scheduled(func, sketch), arrays)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4, err_msg=sketch.name)


def test_columns_are_never_in_memory_as_a_whole() -> None:
    """Beside the padded image and the panel there is one copy less than in narrow vectors, which are not gathered."""
    func = WorkloadSpec.parse("conv2d:1,32,28,32,16,3,3,2").prim_func()
    copies = {}
    for target in (NARROW, WIDE):
        [sketch] = [s for s in packed(func, target) if s.name == "panels+pack+flat"]
        copies[target] = scheduled(func, sketch).script().count("T.alloc_buffer")
    assert copies[NARROW] - copies[WIDE] == 1


def test_vectors_are_gathered() -> None:
    func = WorkloadSpec.parse("conv2d:1,32,32,40,16,3,3,2").prim_func()
    [sketch] = [s for s in packed(func, WIDE) if s.name == "panels+pack+flat"]
    asm = compile_artifact(scheduled(func, sketch), WIDE, name="main", keep=("asm",)).blobs["asm"].decode()
    assert any("vgatherdps" in line and "%zmm" in line for line in asm.splitlines())


def test_elements_of_two_bytes_are_not() -> None:
    """There is no instruction for them."""
    copies = {}
    for dtype in ("float16", "float32"):
        func = WorkloadSpec.parse(f"conv2d:1,32,28,32,16,3,3,2:{dtype}").prim_func()
        [sketch] = [s for s in packed(func, WIDE) if s.name == "panels+pack+flat"]
        copies[dtype] = scheduled(func, sketch).script().count("T.alloc_buffer")
    assert copies["float16"] - copies["float32"] == 1
