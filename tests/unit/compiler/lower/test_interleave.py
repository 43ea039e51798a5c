"""Stores of every second or fourth element, which are put together to vectors of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.dtype import parse_dtype
from compiler.lower.loops.vectorize import vectorize
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import BufferStore, ForKind, IfThenElse, PrimFunc, Ramp
from tests.kit.compiler.lowering_hand import buffer, function, loop, same, stores


def woven(ways: int, lanes: int, valid: int, kind: ForKind = ForKind.UNROLLED, **more: Any) -> PrimFunc:
    """out[3 + j * ways + x] = a[x, j] + x, as far as `valid` elements."""
    a, out, x, j = buffer("a", ways, lanes), buffer("out", ways * lanes + 3, **more), n.Var("x"), n.Var("j")
    place = ops.add(ops.mul(j, ways), x)
    store: n.Stmt = BufferStore(out, a[x, j] + ops.cast("float32", x), (ops.add(place, 3),))
    if valid < ways * lanes:
        store = IfThenElse(n.LT(place, ops.const(valid)), store)
    return function([a, out], loop(x, ways, loop(j, lanes, store, ForKind.VECTORIZED), kind))


def is_together(func: PrimFunc) -> bool:
    """Whether neighbours are stored, none one by one but what no vector has room for."""
    return all(not isinstance(s.indices[0], Ramp) or ops.as_int(s.indices[0].stride) == 1 for s in stores(func))


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("ways", [2, 4])
@pytest.mark.parametrize(("lanes", "short"), [(16, 0), (14, 0), (14, 1), (4, 2), (2, 0), (33, 5), (7, 3), (40, 0)])
def test_neighbours_are_stored_together(ways: int, lanes: int, short: int, bits: int) -> None:
    changed = same(woven(ways, lanes, ways * lanes - short), lambda func: vectorize(func, bits))
    assert is_together(changed)
    widest = max(getattr(s.indices[0], "lanes", 1) for s in stores(changed))
    assert widest >= min(bits // 32, (ways * lanes - short) // 2)


@pytest.mark.parametrize("dtype", ["int8", "int16", "bfloat16", "float32"])
@pytest.mark.parametrize("ways", [2, 4])
def test_narrow_numbers_are_put_together_to_whole_vectors(ways: int, dtype: str) -> None:
    bits, lanes = parse_dtype(dtype).bits, 16
    a, out = (buffer(name, *size, dtype=dtype) for name, size in (("a", (ways, lanes)), ("out", (ways * lanes,))))
    x, j = n.Var("x"), n.Var("j")
    store = BufferStore(out, a[x, j], (ops.add(ops.mul(j, ways), x),))
    func = function([a, out], loop(x, ways, loop(j, lanes, store, ForKind.VECTORIZED), ForKind.UNROLLED))
    changed = same(func, lambda func: vectorize(func, 512))
    assert is_together(changed)
    assert {s.indices[0].lanes for s in stores(changed)} == {min(512 // bits, ways * lanes)}


def test_a_mask_ends_the_last_vector_where_vectors_have_masks() -> None:
    """14 tiles of 4 columns are 56 elements: three vectors and a half."""
    changed = same(woven(4, 14, 56), lambda func: vectorize(func, 512))
    assert [s.indices[0].lanes for s in stores(changed)] == [16] * 4
    assert [s.predicate is None for s in stores(changed)] == [True, True, True, False]


def test_random_sizes() -> None:
    rng = np.random.default_rng(0)
    for _ in range(12):
        ways, lanes, bits = int(rng.choice([2, 4])), int(rng.integers(2, 50)), int(rng.choice([128, 256, 512]))
        valid = int(rng.integers(ways, ways * lanes + 1))
        kind = (ForKind.UNROLLED, ForKind.SERIAL)[int(rng.integers(2))]
        changed = same(woven(ways, lanes, valid, kind), lambda func, bits=bits: vectorize(func, bits))  # type: ignore[misc]
        assert is_together(changed), (ways, lanes, valid, bits)


@pytest.mark.parametrize(
    "case", ["three ways", "another step", "reads what it stores", "a condition that data decides"]
)
def test_what_stays_as_it_is(case: str) -> None:
    a, out, x, j = buffer("a", 4, 16), buffer("out", 80), n.Var("x"), n.Var("j")
    step, ways = (5 if case == "another step" else 3 if case == "three ways" else 4), (3 if case == "three ways" else 4)
    value = a[x, j]
    if case == "reads what it stores":
        value = value + out[ops.add(ops.mul(j, step), x)]
    store: n.Stmt = BufferStore(out, value, (ops.add(ops.mul(j, step), x),))
    if case == "a condition that data decides":
        store = IfThenElse(n.LT(a[x, j], ops.const(0.0)), store)
    func = function([a, out], loop(x, ways, loop(j, 16, store, ForKind.VECTORIZED), ForKind.UNROLLED))
    changed = same(func, lambda func: vectorize(func, 512))
    assert not is_together(changed)
