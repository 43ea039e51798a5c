"""Schedules on symbolic shapes: one build, any size, tails included; main loops without conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from compiler.driver.build import build, compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.ir.visit import walk
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, size_var
from compiler.te.prim_func import create_prim_func
from compiler.te.reduction import reduce_axis
from compiler.te.reduction import sum as te_sum
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import ForKind, PrimFunc
from tests.kit.compiler import lowering

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 3, 4, 5, 15, 16, 17, 33, 64, 100)


# --------------------------------------------------------------------------------- schedules


def tiled_matmul() -> PrimFunc:
    return matmul_in_tiles(size_var("n"), size_var("m"), size_var("d"))


def uneven_matmul() -> PrimFunc:
    """Known sizes that no tile divides."""
    return matmul_in_tiles(100, 100, 101)


def matmul_in_tiles(rows: Any, cols: Any, depth: Any) -> PrimFunc:
    """Register tiles 6 x 16 in a local array, a packed panel, k unrolled by 4."""
    a, b = placeholder((rows, depth), name="A"), placeholder((depth, cols), name="B")
    k = reduce_axis((0, depth), name="k")
    c = compute((rows, cols), lambda i, j: te_sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(create_prim_func([a, b, c]))
    tiles = lowering.tile_matmul(sch, (6, 16, 4), columns_first=True)
    panel = sch.cache_read(tiles.block, 1, "global")
    sch.compute_at(panel, tiles.j0)
    for loop in (tiles.j1, sch.get_loops(tiles.cache)[-1], sch.get_loops(panel)[-1]):
        sch.vectorize(loop)
    sch.unroll(tiles.i1)
    sch.unroll(tiles.k1)
    return sch.func


def elementwise() -> PrimFunc:
    size = size_var("n")
    a = placeholder((size,), name="A")
    sch = Schedule(create_prim_func([a, compute((size,), lambda i: a[i] * 2.0, name="B")]))
    _outer, lanes = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 32])
    sch.vectorize(lanes)
    return sch.func


def fused_parallel() -> PrimFunc:
    rows, cols = size_var("n"), size_var("m")
    a = placeholder((rows, cols), name="A")
    sch = Schedule(create_prim_func([a, compute((rows, cols), lambda i, j: a[i, j] * 2.0, name="B")]))
    outer, _middle, lanes = sch.split(sch.fuse(*sch.get_loops(sch.get_block("B"))), [None, 4, 16])
    sch.vectorize(lanes)
    sch.parallel(outer)
    return sch.func


def chain_computed_at() -> PrimFunc:
    rows, cols = size_var("n"), size_var("m")
    a = placeholder((rows, cols), name="A")
    b = compute((rows, cols), lambda i, j: a[i, j] * 2.0, name="B")
    c = compute((rows, cols), lambda i, j: b[i, j] + 1.0, name="C")
    sch = Schedule(create_prim_func([a, c]))
    lowering.in_tiles(sch, "B", "C")
    return sch.func


def cached_stencil() -> PrimFunc:
    size = size_var("n")
    a = placeholder((size + 2,), name="A")
    b = compute((size + 2,), lambda i: a[i] * 2.0, name="B")
    c = compute((size,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    sch = Schedule(create_prim_func([a, c]))
    sch.cache_read(sch.get_block("B"), 0, "global")
    outer, lanes = sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 16])
    sch.compute_at(sch.get_block("B"), outer)
    sch.vectorize(lanes)
    return sch.func


def softmax_by_rows() -> PrimFunc:
    sch = Schedule(lowering.softmax(size_var("n"), size_var("m")))
    i, j = sch.get_loops(sch.get_block("out"))
    i0, i1 = sch.split(i, [None, 4])
    sch.vectorize(sch.split(j, [None, 16])[1])
    sch.parallel(i0)
    for name in ("total", "power", "top"):
        sch.compute_at(sch.get_block(name), i1)
    return sch.func


def sum_by_rfactor(chunk: int, outer: bool) -> PrimFunc:
    """Partial sums: of lanes (vectorized), or of chunks (in parallel)."""
    size = size_var("n")
    a = placeholder((size,), name="A")
    k = reduce_axis((0, size), name="k")
    sch = Schedule(create_prim_func([a, compute((1,), lambda i: te_sum(a[k], axis=k), name="B")]))
    parts = sch.split(sch.get_loops(sch.get_block("B"))[1], [None, chunk])
    partial = sch.rfactor(parts[0 if outer else 1], 0)
    if outer:
        sch.parallel(sch.get_loops(partial)[0])
    else:
        sch.vectorize(sch.get_loops(partial)[-1])
    return sch.func


def tiled_conv2d() -> PrimFunc:
    images, height, width = size_var("n"), size_var("h"), size_var("w")
    data, weight = placeholder((images, 4, height, width), name="data"), placeholder((8, 4, 3, 3), name="weight")

    def padding(b: Any, c: Any, y: Any, x: Any) -> Any:
        inside = ops.logical_and(y >= 1, y < height + 1, x >= 1, x < width + 1)
        return if_then_else(inside, data[b, c, y - 1, x - 1], ops.const(0.0))

    padded = compute((images, 4, height + 2, width + 2), padding, name="padded")
    rc, ry, rx = reduce_axis((0, 4), name="rc"), reduce_axis((0, 3), name="ry"), reduce_axis((0, 3), name="rx")
    conv = compute(
        (images, 8, height, width),
        lambda b, f, y, x: te_sum(padded[b, rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    sch = Schedule(create_prim_func([data, weight, conv]))
    block = sch.get_block("conv")
    b, f, y, x, c, v, h = sch.get_loops(block)
    (f0, f1), (x0, x1) = sch.split(f, [None, 4]), sch.split(x, [None, 16])
    sch.reorder(b, f0, y, x0, c, v, h, f1, x1)
    cache = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(cache, x0)
    sch.compute_at(sch.get_block("padded"), y)
    sch.vectorize(x1)
    sch.vectorize(sch.get_loops(cache)[-1])
    sch.unroll(f1)
    sch.parallel(b)
    return sch.func


# --------------------------------------------------------------------------------- agreement


def agree(func: PrimFunc, cases: Sequence[tuple[Sequence[tuple[int, ...]], tuple[int, ...]]], numpy: Any) -> None:
    """One build gives numpy's results for all shapes; so does the interpreter, as written and lowered."""
    module = build(func, target="llvm")
    lowered = lower_func(func)
    rng = np.random.default_rng(0)
    for shapes, result in cases:
        inputs = [rng.standard_normal(shape).astype("float32") for shape in shapes]
        want = numpy(*inputs)
        out = array(np.full(result, 7, "float32"))
        module(*map(array, inputs), out)
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-3, atol=1e-4, err_msg=f"machine code, {shapes}")
        # a reduction of nothing is initialised by lowering only: blocks do so in their first iteration
        stages = [lowered] if 0 in (d for s in shapes for d in s) else [func, lowered]
        for stage in stages if np.prod(result) < 300 else []:
            values = np.full(result, 7, "float32")
            run(stage, *(x.copy() for x in inputs), values)
            np.testing.assert_allclose(values, want, rtol=1e-3, atol=1e-4, err_msg=f"interpreter, {shapes}")


def softmax(x: Array) -> Array:
    power = np.exp(x - x.max(1, keepdims=True, initial=-1e30))
    return power / power.sum(1, keepdims=True)


def convolved(data: Array, weight: Array) -> Array:
    images, _, height, width = data.shape
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((images, 8, height, width), "float32")
    for y in range(3):
        for x in range(3):
            window = padded[:, :, y : y + height, x : x + width]
            out += np.einsum("bchw,fc->bfhw", window, weight[:, :, y, x])
    return out


def test_matmul() -> None:
    sizes = [(1, 1, 1), (0, 3, 3), (3, 0, 3), (5, 5, 0), (6, 16, 4), (7, 17, 5), (12, 32, 8), (13, 31, 9), (60, 50, 40)]
    agree(tiled_matmul(), [([(m, d), (d, k)], (m, k)) for m, k, d in sizes], lambda a, b: a @ b)


def test_elementwise() -> None:
    agree(elementwise(), [([(size,)], (size,)) for size in (*SIZES, 31, 32, 1000)], lambda a: a * 2)


@pytest.mark.parametrize("make", [fused_parallel, chain_computed_at])
def test_two_dimensions(make: Callable[[], PrimFunc]) -> None:
    cases = [([(rows, cols)], (rows, cols)) for rows in SIZES for cols in SIZES[::2]]
    agree(make(), cases, (lambda a: a * 2) if make is fused_parallel else (lambda a: a * 2 + 1))


def test_stencil() -> None:
    cases = [([(size + 2,)], (size,)) for size in SIZES]
    agree(cached_stencil(), cases, lambda a: 2 * (a[:-2] + a[1:-1] + a[2:]))


def test_softmax() -> None:
    agree(softmax_by_rows(), [([(r, c)], (r, c)) for r in SIZES[:6] for c in SIZES[1:8]], softmax)


@pytest.mark.parametrize(("chunk", "outer"), [(16, False), (100, True)])
def test_sums(chunk: int, outer: bool) -> None:
    cases = [([(size,)], (1,)) for size in (*SIZES, 1000)]
    agree(sum_by_rfactor(chunk, outer), cases, lambda a: a.sum(keepdims=True))


def test_conv2d() -> None:
    sizes = [(1, 1, 1), (2, 3, 5), (1, 2, 16), (1, 5, 17), (1, 3, 33), (0, 3, 3), (1, 0, 3)]
    cases = [([(b, 4, h, w), (8, 4, 3, 3)], (b, 8, h, w)) for b, h, w in sizes]
    agree(tiled_conv2d(), cases, convolved)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0), (5, 7), (20, 33)])
@pytest.mark.parametrize("way", ["as written", "split", "fused"])
def test_a_condition_that_divides_by_an_extent(way: str, shape: tuple[int, int]) -> None:
    """It is not asked outside the loops, where the extent may be 0."""
    rows, cols = size_var("n"), size_var("m")
    a = placeholder((rows, cols), name="A")
    b = compute(
        (rows, cols), lambda i, j: if_then_else(ops.floordiv(i * 3, cols) < 2, a[i, j] * 2.0, a[i, j]), name="B"
    )
    sch = Schedule(create_prim_func([a, b]))
    loops = sch.get_loops(sch.get_block("B"))
    if way != "as written":
        sch.vectorize(sch.split(sch.fuse(*loops) if way == "fused" else loops[1], [None, 16])[1])

    def chosen(x: Array) -> Array:
        doubled = np.arange(shape[0])[:, None] * 3 // max(shape[1], 1) < 2
        return np.where(doubled, x * 2, x)

    agree(sch.func, [([shape], shape)], chosen)


# ---------------------------------------------------------------------------------- main loops


def innermost(func: PrimFunc) -> list[n.For]:
    loops = [node for node in walk(lower_func(func).body) if isinstance(node, n.For)]
    serial = [loop for loop in loops if loop.kind is not ForKind.UNROLLED]
    return [f for f in serial if not any(isinstance(x, n.For) and x in serial for x in walk(f.body))]


def is_plain(loop: n.For) -> bool:
    """No condition, no mask."""
    for node in walk(loop.body):
        masked = isinstance(node, n.BufferLoad | n.BufferStore) and node.predicate is not None
        if masked or isinstance(node, n.IfThenElse | n.Select):
            return False
    return True


@pytest.mark.parametrize("make", [elementwise, tiled_matmul, chain_computed_at, fused_parallel])
def test_a_main_loop_has_no_condition(make: Callable[[], PrimFunc]) -> None:
    """Some innermost loop stores whole vectors and asks nothing; the tail is vectors under a mask."""
    func = make()
    plain = [loop for loop in innermost(func) if is_plain(loop)]
    stores = [x for loop in plain for x in walk(loop.body) if isinstance(x, n.BufferStore)]
    assert any(isinstance(store.indices[0], n.Ramp) for store in stores)
    masked = [x for x in walk(lower_func(func).body) if isinstance(x, n.BufferStore) and x.predicate is not None]
    assert masked


def machine_loops(func: PrimFunc) -> list[str]:
    """The innermost loops of one basic block, as assembly for a CPU with AVX2."""
    text = assembly_of(func)
    return [body for _, body in re.findall(r"^(\.LBB\S+):\n((?:\t.*\n)*?\tj\w+\s+\1\n)", text, re.MULTILINE)]


def assembly_of(func: PrimFunc) -> str:
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -mattr=+avx2,+fma")
    return compile_artifact(func, target, keep=("asm",)).blobs["asm"].decode()


def assert_only_counts(loop: str) -> None:
    """One jump, the one back; nothing is compared but the counter."""
    assert len(re.findall(r"^\tj", loop, re.MULTILINE)) == 1
    assert len(re.findall(r"^\t(?:cmp|test|vcmp|vpcmp)", loop, re.MULTILINE)) <= 1
    assert "vmaskmov" not in loop


def test_the_machine_code_of_an_elementwise_main_loop() -> None:
    loops = machine_loops(elementwise())
    assert_only_counts(next(body for body in loops if "vmaskmov" not in body))
    assert any("vmaskmov" in body for body in loops)


@pytest.mark.parametrize("make", [tiled_matmul, uneven_matmul])
def test_the_machine_code_of_a_tile(make: Callable[[], PrimFunc]) -> None:
    """6 rows of 2 vectors, 4 steps of k: 48 fused operations on registers in the main loop."""
    loop = max(machine_loops(make()), key=lambda body: body.count("vfmadd"))
    assert loop.count("vfmadd") == 48
    assert_only_counts(loop)
    assert len(re.findall(r"vmovups?\s+%ymm", loop)) == 0  # no accumulator is stored
