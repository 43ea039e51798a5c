"""Operands computed where they are used: weights of 4 bits, slices of a cache, and what is computed before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.driver.build import compile_artifact
from compiler.lower.blocks.split_preproc import LAYOUT_FREE
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tests.kit.tuner.sketch_points import at_point, random_point
from tunefarm import te, tir
from tuner.space.analysis import blocks_of
from tuner.space.generate import generate

TARGET = Target("llvm -num-cores=1").resolved()
BLOCK = 8  # weights with one scale


def product(x, weights):
    *batch, rows, depth = x.shape
    k = te.reduce_axis((0, depth), "k")
    return te.compute(
        (*batch, rows, weights.shape[-1]),
        lambda *at: te.sum(x[(*at[:-1], k)] * weights[(*at[:-2], k, at[-1])], k),
        name="C",
    )


def four_bits(rows: int, columns: int, depth: int) -> PrimFunc:
    x, bits = te.placeholder((rows, depth), name="x"), te.placeholder((depth // 2, columns), "uint8", name="bits")
    scales = te.placeholder((depth // BLOCK, columns), name="scales")

    def unpacked(k, n):
        held = (bits[k // 2, n].astype("int32") >> (k % 2 * 4)) & 15
        return (held - 8).astype("float32") * scales[k // BLOCK, n]

    weights = te.compute((depth, columns), unpacked, name="weights")
    return te.create_prim_func([x, bits, scales, product(x, weights)])


def of_four_bits(bits: np.ndarray, scales: np.ndarray) -> np.ndarray:
    held = np.stack([bits & 15, bits >> 4], 1).reshape(-1, bits.shape[1]).astype("float32") - 8
    return held * np.repeat(scales, BLOCK, 0)


def inlined(func: PrimFunc) -> bool:
    """Whether every sketch has no block left for the operand."""
    left = [
        {b.name for b in blocks_of(at_point(func, s, point))}
        for s in generate(func, TARGET)
        if (point := s.random(np.random.default_rng(0), 512)) is not None
    ]
    assert left
    return not any("weights" in names for names in left)


def check(func: PrimFunc, wanted: np.ndarray, *args: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    for sketch in generate(func, TARGET):
        point = random_point(sketch, rng, 512)
        scheduled = at_point(func, sketch, point)
        held = [array(a) for a in (*args, np.empty(wanted.shape, "float32"))]
        load_artifact(compile_artifact(scheduled, TARGET, name="main"))["main"](*held)
        np.testing.assert_allclose(held[-1].numpy(), wanted, rtol=1e-4, atol=1e-3, err_msg=sketch.name)


@settings(max_examples=6, deadline=None)
@given(rows=st.integers(1, 20), columns=st.integers(17, 90), blocks=st.integers(2, 6), free=st.booleans())
def test_weights_of_four_bits(rows, columns, blocks, free):
    func = four_bits(rows, columns, blocks * BLOCK)
    if free:
        func = func.with_attr(LAYOUT_FREE, [1, 2])
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, blocks * BLOCK)).astype("float32")
    bits = rng.integers(0, 256, (blocks * BLOCK // 2, columns)).astype("uint8")
    scales = rng.uniform(0, 1, (blocks, columns)).astype("float32")
    assert inlined(func) == (rows <= 8)
    check(func, x @ of_four_bits(bits, scales), x, bits, scales)


@pytest.mark.parametrize("rows", [2, 16])
def test_packed_weights_keep_their_width(rows):
    """Those that are unpacked into panels, too: for 16 rows."""
    func = four_bits(rows, 64, 32).with_attr(LAYOUT_FREE, [1, 2])
    sketches = [s for s in generate(func, TARGET) if "ahead" in s.name]
    assert sketches
    for sketch in sketches:
        point = sketch.random(np.random.default_rng(0), 512)
        scheduled = at_point(func, sketch, point)
        packed = {b.name: b.output.buffer.dtype for b in blocks_of(scheduled)}
        assert packed["bits_global"] == "uint8"
        assert (packed.get("scales_global") == "float32") == (rows > 8)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_slice_of_a_cache(rows):
    cache, x = te.placeholder((3, 2, 24, 40), name="cache"), te.placeholder((2, rows, 24), name="x")
    layer = te.compute((2, 24, 40), lambda b, k, n: cache[1, b, k, n], name="weights")
    func = te.create_prim_func([x, cache, product(x, layer)])
    assert inlined(func)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape).astype("float32") for shape in ((2, rows, 24), (3, 2, 24, 40)))
    check(func, a @ b[1], a, b)


@pytest.mark.parametrize(
    ("rows", "made"),
    [
        (2, lambda b: lambda k, n: tir.exp(b[k, n])),  # again for each tile
        (1, lambda b: lambda k, n: b[n, k]),  # across memory
    ],
)
def test_what_stays_a_block_of_its_own(rows, made):
    x, b = te.placeholder((rows, 40), name="x"), te.placeholder((40, 40), name="B")
    func = te.create_prim_func([x, b, product(x, te.compute((40, 40), made(b), name="weights"))])
    assert not inlined(func)


def attention_scores(rows: int, heads: int, depth: int, middle: int):
    """q k^T for each head, whose q and k lie beside each other in one tensor of `middle` more columns."""
    width = heads * depth
    x = te.placeholder((rows, 2 * width + middle), name="x")
    parts = [
        te.compute((rows, heads, depth), lambda i, h, k, at=at: x[i, h * depth + k + at], name=name)
        for name, at in (("query", 0), ("key", width + middle))
    ]
    k = te.reduce_axis((0, depth), "k")
    query, key = parts
    scores = te.compute((heads, rows, rows), lambda h, i, j: te.sum(query[i, h, k] * key[j, h, k], k), name="scores")
    return te.create_prim_func([x, scores])


@settings(max_examples=6, deadline=None)
@given(rows=st.integers(17, 60), heads=st.integers(1, 3), depth=st.integers(3, 40), middle=st.integers(0, 5))
def test_reshaped_operands_are_packed_from_where_they_were(rows, heads, depth, middle):
    func = attention_scores(rows, heads, depth, middle)
    x = np.random.default_rng(0).uniform(-1, 1, (rows, 2 * heads * depth + middle)).astype("float32")
    query, key = (x[:, at : at + heads * depth].reshape(rows, heads, depth) for at in (0, heads * depth + middle))
    check(func, np.einsum("ihk,jhk->hij", query, key), x)
    packed = [s for s in generate(func, TARGET) if s.name.startswith("panels+pack") and "+flat" not in s.name]
    assert packed
    for sketch in packed:
        point = sketch.random(np.random.default_rng(0), 512)
        assert point is not None
        assert not {"query", "key"} & {b.name for b in blocks_of(at_point(func, sketch, point))}


def test_an_operand_that_is_read_as_it_lies_stays_moved_if_its_axes_change_places():
    x, b = te.placeholder((40, 40), name="x"), te.placeholder((40, 3, 40), name="b")
    moved = te.compute((3, 40, 40), lambda h, k, n: b[k, h, n], name="moved")
    k = te.reduce_axis((0, 40), "k")
    func = te.create_prim_func(
        [x, b, te.compute((3, 40, 40), lambda h, i, n: te.sum(x[i, k] * moved[h, k, n], k), name="out")]
    )
    left = {}
    for sketch in generate(func, TARGET):
        point = sketch.random(np.random.default_rng(0), 512)
        assert point is not None
        left[sketch.name] = "moved" in {block.name for block in blocks_of(at_point(func, sketch, point))}
    assert left["panels"]
    assert not left["panels+pack"]
