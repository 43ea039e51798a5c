"""Sketches of contractions: every point builds and computes the right thing; hopeless ones are not offered."""

from __future__ import annotations

import math
import re

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
from compiler.tir.ops import as_int
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.analysis import blocks_of
from tuner.space.cpu.contraction_sizes import packed_depths
from tuner.space.cpu.hardware import Hardware
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.workloads import WorkloadSpec

TARGET = Target("llvm -num-cores=2").resolved()
FILL = "" if TARGET.vector_bits >= 512 else "+fill"
"""Pixels that fill no vector are filled up where vectors have no masks."""
EIGHT_LANES = TARGET if TARGET.vector_bits == 256 else Target("llvm -mcpu=x86-64-v3 -num-cores=2").resolved()
"""For which sketches are offered where rows are a vector or two long; this machine's own, where it has such vectors."""
WORKLOADS = {
    "matmul:37,41,36": lambda a, b: a @ b,
    "matmul:1,40,64": lambda a, b: a @ b,
    "batch_matmul:3,17,24,20": lambda a, b: a @ b,
    "dense:9,33,20": lambda a, b: a @ b.T,
}


def arguments(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [[as_int(s) for s in func.buffer_map[p].shape] for p in func.params]
    return [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]


def run(
    func: PrimFunc, sketch: Sketch, point: tuple[int, ...], args: list[np.ndarray], target: Target = TARGET
) -> np.ndarray:
    scheduled = at_point(func, sketch, point)
    module = load_artifact(compile_artifact(scheduled, target, name="main"))
    held = [array(a) for a in args]
    module["main"](*held)
    return held[-1].numpy()


def agree(
    func: PrimFunc, expected: np.ndarray, args: list[np.ndarray], points: int = 1, target: Target = TARGET
) -> set[str]:
    """Build random points of every sketch and compare; returns the sketches' names."""
    rng = np.random.default_rng(1)
    sketches = generate(func, target)
    for sketch in sketches:
        for _ in range(points):
            point = sketch.random(rng)
            assert point is not None, sketch.name
            found = run(func, sketch, point, args, target)
            np.testing.assert_allclose(
                found, expected, rtol=1e-3, atol=1e-4, err_msg=f"{sketch.name} {sketch.values(point)}"
            )
    return {sketch.name for sketch in sketches}


@pytest.mark.parametrize("text", WORKLOADS)
def test_every_sketch_of_an_odd_product_agrees_with_numpy(text):
    func = WorkloadSpec.parse(text).prim_func()
    args = arguments(func)
    agree(func, WORKLOADS[text](*args[:-1]), args)


def test_the_output_stage_is_fused_and_right():
    a, b, bias = placeholder((19, 32), name="A"), placeholder((32, 27), name="B"), placeholder((27,), name="bias")
    out = topi.nn.relu(topi.add(topi.nn.matmul(a, b), bias))
    func = create_prim_func([a, b, bias, out])
    args = arguments(func)
    agree(func, np.maximum(args[0] @ args[1] + args[2], 0), args)


def names(text: str, target: Target = TARGET) -> set[str]:
    return {sketch.name for sketch in generate(WorkloadSpec.parse(text).prim_func(), target)}


def test_which_shapes_are_offered():
    assert "panels+pack2+pad" in names("matmul:509,257,1021")
    assert not any("pad" in name for name in names("matmul:64,64,64"))
    assert "deep" in names("matmul:4,256,256")
    assert "deep" not in names("matmul:512,512,512")
    assert "deep+pack2" in names("matmul:512,512,2048")
    assert "deep+pack2" in names("matmul:1024,1024,1024")
    assert "deep+pack2" not in names("matmul:512,512,1021"), "no block divides a prime"
    assert all("pack" in name for name in names("dense:64,64,64"))  # weights lie across the vectors


def bands(text: str, cores: int) -> dict[str, tuple[int, ...]]:
    target = Target(f"llvm -num-cores={cores}").resolved()
    sketches = generate(WorkloadSpec.parse(text).prim_func(), target)
    return {s.name: d.values for s in sketches for d in s.decisions if d.name == "bands"}


def test_several_threads_share_packed_panels_in_bands_of_rows():
    assert bands("matmul:512,512,512", 1) == {}
    assert bands("matmul:512,512,512", 2) == {"panels+pack": (1, 2, 4)}
    assert bands("matmul:512,512,512", 64) == {"panels+pack": (1, 2, 4, 8, 16)}  # of 32 rows and more
    assert bands("matmul:48,512,512", 64) == {}


@pytest.mark.parametrize("text", ["matmul:133,70,36", "batch_matmul:2,65,50,24"])
def test_bands_of_any_rows_agree_with_numpy(text):
    func = WorkloadSpec.parse(text).prim_func()
    args = arguments(func)
    [sketch] = [s for s in generate(func, TARGET) if any(d.name == "bands" for d in s.decisions)]
    at = [d.name for d in sketch.decisions].index("bands")
    rng = np.random.default_rng(2)
    for band in range(len(sketch.decisions[at].values)):
        point = random_point(sketch, rng)
        point = (*point[:at], band, *point[at + 1 :])
        np.testing.assert_allclose(run(func, sketch, point, args), args[0] @ args[1], rtol=1e-3, atol=1e-4)


def test_more_tasks_by_bands_keep_more_threads_busy():
    target = Target("llvm -num-cores=16").resolved()
    sketches = generate(WorkloadSpec.parse("matmul:512,512,512").prim_func(), target)
    sketch = next(s for s in sketches if s.name == "panels+pack")
    given = {"rows": 4, "vectors": 2, "panel": 64 * 32 // TARGET.vector_bits // 2, "unroll": 1}  # eight panels

    def score(count: int) -> float:
        chosen = given | {"bands": count}
        return sketch.score(tuple(d.values.index(chosen[d.name]) for d in sketch.decisions))

    assert score(2) > 1.5 * score(1)


@pytest.mark.parametrize("text", ["matmul:509,257,1021", "matmul:512,512,2048", "matmul:16,4096,4096"])
def test_what_is_offered_fits_registers_and_caches(text):
    rng = np.random.default_rng(0)
    for sketch in generate(WorkloadSpec.parse(text).prim_func(), TARGET):
        for _ in range(50):
            point = sketch.random(rng)
            if point is None:
                continue
            values = sketch.values(point)
            assert values["rows"] * values["vectors"] < TARGET.vector_registers
            if "pad" in sketch.name:
                assert 516 % values["rows"] == 0
                lanes = TARGET.vector_bits // 32
                assert -(-257 // (2 * lanes)) * 2 % values["vectors"] == 0
            assert math.isfinite(sketch.score(point))
            assert 0 <= sketch.score(point) <= 1


def cut_and_packed(text: str) -> Sketch:
    sketches = generate(WorkloadSpec.parse(text).prim_func(), TARGET)
    return next(sketch for sketch in sketches if sketch.name == "deep+pack2")


def test_blocks_of_a_long_sum_keep_columns_and_rows_near():
    """A block of a tile's columns lies in the first-level cache, a block of a chunk of rows in the second."""
    sketch = cut_and_packed("matmul:1024,1024,1024")
    rng = np.random.default_rng(0)
    for _ in range(50):
        point = random_point(sketch, rng)
        values = sketch.values(point)
        assert values["vectors"] * TARGET.vector_bits // 8 * values["depth"] <= Hardware.of(TARGET, "float32").l1_bytes
        assert values["rows"] * values["chunk"] * values["depth"] * 4 <= 512 << 10
    small, large = ({"rows": 6, "vectors": 2, "panel": 32, "chunk": c, "depth": 256, "unroll": 4} for c in (8, 32))
    assert sketch.draft(small) < sketch.draft(large), "more rows for the columns that were brought near"


@pytest.mark.parametrize(
    ("extent", "blocks"),
    [(1024, (128, 256, 512)), (1536, (128, 256, 512)), (1200, (120, 240, 400)), (1008, (112, 168, 504))],
)
def test_long_sums_are_cut_in_a_few_long_blocks(extent, blocks):
    (info,) = blocks_of(WorkloadSpec.parse(f"matmul:16,32,{extent}").prim_func())
    assert packed_depths(info) == blocks


def test_sums_in_blocks_agree_with_numpy_at_the_edges():
    func = WorkloadSpec.parse("matmul:70,53,1040").prim_func()
    args = arguments(func)
    sketch = next(s for s in generate(func, TARGET) if s.name == "deep+pack2")
    wanted = {"depth": 208, "rows": 6, "vectors": 2, "panel": 2, "chunk": 8, "unroll": 4}
    point = tuple(d.values.index(wanted[d.name]) for d in sketch.decisions)
    np.testing.assert_allclose(run(func, sketch, point, args), args[0] @ args[1], rtol=1e-3, atol=1e-3)


def test_a_register_tile_stays_in_registers():
    """Every product of a 6 x 2 tile is one fused instruction on accumulators, and nothing is gathered."""
    func = WorkloadSpec.parse("matmul:48,64,64").prim_func()
    sketch = next(s for s in generate(func, TARGET) if s.name == "panels+pack2")
    wanted = {"rows": 6, "vectors": 2, "panel": 2, "chunk": 4, "unroll": 4}
    point = tuple(d.values.index(wanted[d.name]) for d in sketch.decisions)
    scheduled = at_point(func, sketch, point)
    zen = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3")
    asm = compile_artifact(scheduled, zen, name="main", keep=("asm",)).blobs["asm"].decode()
    fused = [line for line in asm.splitlines() if "vfmadd" in line]
    assert len(fused) >= 6 * 2 * 4
    assert all("ymm" in line for line in fused)
    assert "gather" not in asm


def parallel_passes(func: PrimFunc, sketch: Sketch) -> int:
    point = random_point(sketch, np.random.default_rng(0))
    return at_point(func, sketch, point).script().count("T.parallel")


CONVOLUTIONS = {
    "conv2d:1,5,9,9,9,3,3": {"panels", "panels+pack+flat+fill", "panels+pack2+flat+fill", "rows+pack+flat+fill"},
    "conv2d:2,4,6,6,12,1,1,2,0": {"panels+pack+flat+fill"},
    "conv2d:2,6,8,9,9,1,1,1,0": {"panels+flat", "panels+pack+flat", "panels+pack2+flat", "rows+pack+flat"},
    "conv2d:1,6,9,9,9,1,1,1,0": {"panels+flat", "panels+pack+flat+fill", "panels+pack2+flat+fill"},
}


STEPS = ["conv2d:1,3,20,32,12,7,7,2,3", "conv2d:2,3,9,48,10,3,3,2,1"]


def convolve(x, w, stride, pad):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwrs,fcrs->nfhw", windows, w)


@pytest.mark.parametrize("text", STEPS)
def test_every_so_many_elements_of_a_row_are_packed_as_neighbours(text):
    func = WorkloadSpec.parse(text).prim_func()
    args = arguments(func)
    stride, pad = WorkloadSpec.parse(text).args[7:]
    assert "panels+pack+unfold" in agree(func, convolve(args[0], args[1], stride, pad), args, 2, EIGHT_LANES)
    assert "panels+pack" not in names(text, EIGHT_LANES), "a copy with gaps"
    packed = next(sketch for sketch in generate(func, EIGHT_LANES) if sketch.name == "panels+pack+unfold")
    assert {d.name for d in packed.decisions} == {"rows", "vectors", "panel"}


def test_the_output_stage_of_a_convolution_with_steps_is_fused_and_right():
    x, w, bias = placeholder((1, 3, 17, 48), name="X"), placeholder((8, 3, 3, 3), name="W"), placeholder((8, 1, 1))
    out = topi.nn.relu(topi.add(topi.nn.conv2d_nchw(x, w, stride=2, padding=1, dilation=1), bias))
    func = create_prim_func([x, w, bias, out])
    args = arguments(func)
    agree(func, np.maximum(convolve(args[0], args[1], 2, 1) + args[2], 0), args)


@pytest.mark.parametrize("text", CONVOLUTIONS)
def test_every_sketch_of_a_convolution_agrees_with_numpy(text):
    func = WorkloadSpec.parse(text).prim_func()
    args = arguments(func)
    given = WorkloadSpec.parse(text).args[7:]
    stride, pad = (*given, *(1, 1)[len(given) :])
    found = agree(func, convolve(args[0], args[1], stride, pad), args, target=EIGHT_LANES)
    assert found >= CONVOLUTIONS[text]


@pytest.mark.skipif(EIGHT_LANES is TARGET, reason="this machine's vectors have eight lanes, which others test")
@pytest.mark.parametrize("text", [*CONVOLUTIONS, *STEPS])
def test_convolutions_in_this_machines_vectors_agree_with_numpy(text):
    func = WorkloadSpec.parse(text).prim_func()
    args = arguments(func)
    given = WorkloadSpec.parse(text).args[7:]
    stride, pad = (*given, *(1, 1)[len(given) :])
    agree(func, convolve(args[0], args[1], stride, pad), args)


def pointwise(stages: bool = False) -> PrimFunc:
    """A 1×1 convolution; with `stages` relu before it, a bias for each filter and relu behind it."""
    x, w, bias = placeholder((1, 32, 9, 8), name="X"), placeholder((40, 32, 1, 1), name="W"), placeholder((40, 1, 1))
    out = topi.nn.conv2d_nchw(topi.nn.relu(x) if stages else x, w, stride=1, padding=0, dilation=1)
    return create_prim_func([x, w, bias, topi.nn.relu(topi.add(out, bias))] if stages else [x, w, out])


def test_pixels_that_lie_together_are_not_copied():
    """A 1×1 convolution is one pass: panels are packed from the image, tiles are written where the result belongs."""
    func = pointwise()
    sketches = [sketch for sketch in generate(func, EIGHT_LANES) if not sketch.name.startswith("rows")]
    assert {sketch.name for sketch in sketches} == {"panels+flat", "panels+pack+flat", "panels+pack2+flat"}
    assert {parallel_passes(func, sketch) for sketch in sketches} == {1}
    assert {d.name for d in sketches[0].decisions} == {"rows", "vectors", "panel", "unroll"}, "of 1×1 steps none"


def test_threads_share_filters_where_there_are_few_pixels():
    """All pixels are copied in a pass of its own, then each task computes some filters for all of them."""
    few = WorkloadSpec.parse("conv2d:1,32,7,7,64,1,1,1,0").prim_func()
    [shared] = [sketch for sketch in generate(few, TARGET) if sketch.name == f"rows+pack+flat{FILL}"]
    assert {d.name for d in shared.decisions} == {"rows", "vectors", "unroll"}
    point = [d.values.index({"rows": 6, "vectors": 2, "unroll": 1}[d.name]) for d in shared.decisions]
    text = at_point(few, shared, point).script()
    tasks = [int(t) for t in re.findall(r"T\.parallel\((?:0, )?(\d+)\)", text)]
    assert -(-64 // 6) in tasks
    many, alone = WorkloadSpec.parse("conv2d:1,8,28,28,16,1,1,1,0").prim_func(), Target("llvm -num-cores=1").resolved()
    assert not any(sketch.name.startswith("rows+pack") for sketch in (*generate(many, TARGET), *generate(few, alone)))


def test_filters_are_not_copied_for_few_pixels():
    func = WorkloadSpec.parse("conv2d:1,32,7,7,64,1,1,1,0").prim_func()
    known = func.with_attr("layout_free_buffers", [1])  # the filters: they are packed ahead of time
    assert not any("pack2" in sketch.name for sketch in generate(func, TARGET))
    assert f"panels+pack2+flat{FILL}+ahead" in {sketch.name for sketch in generate(known, TARGET)}


def test_stages_around_flat_pixels_are_fused_and_right():
    func = pointwise(stages=True)
    args = arguments(func)
    x, w, bias = args[:3]
    expected = np.maximum(convolve(np.maximum(x, 0), w, 1, 0) + bias, 0)
    assert "panels+pack+flat" in agree(func, expected, args, target=EIGHT_LANES)
    packed = next(sketch for sketch in generate(func, EIGHT_LANES) if sketch.name == "panels+pack+flat")
    assert parallel_passes(func, packed) == 1


def test_rows_of_a_depthwise_convolution_share_what_they_load():
    x, w = placeholder((1, 6, 13, 19), name="X"), placeholder((6, 1, 3, 3), name="W")
    func = create_prim_func([x, w, topi.nn.depthwise_conv2d_nchw(x, w, stride=1, padding=1)])
    args = arguments(func)
    padded = np.pad(args[0], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    agree(func, np.einsum("nchwrs,crs->nchw", windows, args[1][:, 0]), args)
    for sketch in generate(func, TARGET):
        assert parallel_passes(func, sketch) == 1, "padding is part of what each task does"
    assert all("rows" in {d.name for d in sketch.decisions} for sketch in generate(func, TARGET))


@pytest.mark.parametrize("seed", range(6))
def test_depthwise_convolutions_of_random_sizes_agree_with_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels, high, wide, taps, stride = (
        int(rng.integers(*ends)) for ends in ((1, 5), (5, 20), (5, 40), (1, 6), (1, 4))
    )
    x, w = placeholder((1, channels, high, wide), name="X"), placeholder((channels, 1, taps, taps), name="W")
    out = topi.nn.relu(topi.nn.depthwise_conv2d_nchw(x, w, stride=stride, padding=taps // 2))
    func = create_prim_func([x, w, out])
    args = arguments(func, seed)
    padded = np.pad(args[0], ((0, 0), (0, 0), *[(taps // 2, taps // 2)] * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (taps, taps), axis=(2, 3))[:, :, ::stride, ::stride]
    expected = np.maximum(np.einsum("nchwrs,crs->nchw", windows, args[1][:, 0]), 0)
    agree(func, expected, args, target=(TARGET, EIGHT_LANES)[seed % 2])


@pytest.mark.parametrize("unroll", [1, 4])
def test_whole_tiles_stay_in_registers_beside_edges(unroll):
    """Edges have code of their own, in one loop more: the sums of whole tiles keep their registers beside it."""
    func = WorkloadSpec.parse("matmul:509,1021,256").prim_func()
    zen = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3")
    sketch = next(s for s in generate(func, zen) if s.name == "panels+pack")
    wanted = {"rows": 6, "vectors": 2, "panel": 16, "unroll": unroll}
    point = tuple(d.values.index(wanted[d.name]) for d in sketch.decisions)
    scheduled = at_point(func, sketch, point)
    asm = compile_artifact(scheduled, zen, name="main", keep=("asm",)).blobs["asm"].decode().splitlines()
    fused = [at for at, line in enumerate(asm) if "vfmadd" in line]
    whole = fused[: 6 * 2 * unroll]  # comes first
    assert not any("(%rsp)" in line for line in asm[whole[0] : whole[-1]])
