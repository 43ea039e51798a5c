"""Floats rounded and limited to small integers: machine code against numpy, next to where integers change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.codegen.llvm.whole_numbers import quotient
from compiler.driver.build import compile_artifact
from compiler.schedule.analysis.expr import subst_tree
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import ForKind, PrimExpr, PrimFunc
from tests.kit.compiler.lowering import outputs_by_machine

ZEN4, PLAIN = (Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}") for cpu in ("znver4", "x86-64"))
COUNT = 4096
SCALES = (0.03374939784407616, 0.021100357174873352, 0.5, 3.0, 117.3)


def limited(x: PrimExpr, zero: int, dtype: str) -> PrimExpr:
    """Quantise a number."""
    info = np.iinfo(dtype)
    moved = intrin.nearbyint(x) + float(zero)
    return ops.cast(dtype, ops.maximum(ops.minimum(moved, float(info.max)), float(info.min)))


def kernel(scale: float, zero: int, dtype: str, vector: bool, wide: bool = False) -> PrimFunc:
    """Divide by `scale` and quantise; `wide`: and make floats of that again."""
    x = n.decl_buffer((COUNT,), "float32", "x")
    y = n.decl_buffer((COUNT,), "float32" if wide else dtype, "y")
    i = n.Var("i")
    value = limited(x[i] / scale, zero, dtype)
    if wide:
        value = ops.cast("float32", ops.cast("int32", value) - zero) * scale
    loop = n.For(
        i,
        ops.const(0),
        ops.const(COUNT),
        ForKind.VECTORIZED if vector else ForKind.SERIAL,
        n.BufferStore(y, value, (i,)),
    )
    params = (n.Var("p0", "handle"), n.Var("p1", "handle"))
    return PrimFunc(params, loop, None, {params[0]: x, params[1]: y}, {"tir.noalias": True, "global_symbol": "main"})


def in_vectors(func: PrimFunc, lanes: int) -> PrimFunc:
    """`func`, a loop over all numbers, with an inner loop of so many lanes."""
    outer, inner = n.Var("o"), n.Var("i")
    assert isinstance(func.body, n.For)
    body = subst_tree(func.body.body, {func.body.loop_var: outer * lanes + inner})
    lane = n.For(inner, ops.const(0), ops.const(lanes), ForKind.VECTORIZED, body)
    return func.with_body(n.For(outer, ops.const(0), ops.const(COUNT // lanes), ForKind.SERIAL, lane))


def near_steps(scale: float, zero: int) -> Any:
    """Numbers at and beside those where the quotient changes its integer; what is no number; what is too large."""
    steps = ((np.arange(-140, 400) - zero - 0.5) * np.float64(np.float32(scale))).astype("float32")
    beside = [steps, *(np.nextafter(steps, np.float32(end)) for end in (np.inf, -np.inf))]
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-45, -1e-45], "float32")
    found = np.concatenate([*beside, odd])
    return np.concatenate([found, np.random.default_rng(0).normal(0, 60 * scale, COUNT - len(found)).astype("float32")])


def by_numpy(x: Any, scale: float, zero: int, dtype: str) -> Any:
    """The integers; 0 for what is no number."""
    info = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        found = np.clip(np.rint(x / np.float32(scale)) + np.float32(zero), info.min, info.max)
    return np.nan_to_num(found, nan=0).astype(dtype)


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize(("zero", "dtype"), [(0, "uint8"), (124, "uint8"), (-3, "int8"), (5, "int16")])
@pytest.mark.parametrize("scale", SCALES)
def test_machine_code_rounds_as_a_division_does(scale: float, zero: int, dtype: str, vector: bool) -> None:
    x = near_steps(scale, zero)
    made = outputs_by_machine(kernel(scale, zero, dtype, vector), [x, np.zeros(COUNT, dtype)])[1]
    np.testing.assert_array_equal(made, by_numpy(x, scale, zero, dtype))


@pytest.mark.skipif("avx512bw" not in Target.host().features, reason="this CPU has no AVX-512")
@pytest.mark.parametrize("lanes", [16, 32, 64])
@pytest.mark.parametrize("zero", [0, 3, 128, 255])
def test_several_vectors_packed_at_once_are_the_same_bytes(zero: int, lanes: int) -> None:
    x = near_steps(SCALES[0], zero)
    made = outputs_by_machine(in_vectors(kernel(SCALES[0], zero, "uint8", False), lanes), [x, np.zeros(COUNT, "uint8")])
    np.testing.assert_array_equal(made[1], by_numpy(x, SCALES[0], zero, "uint8"))


@pytest.mark.parametrize(
    ("lanes", "dtype", "is_packed"), [(64, "uint8", True), (16, "uint8", False), (64, "int8", False)]
)
def test_bytes_from_0_on_are_packed_where_there_are_several_vectors(lanes: int, dtype: str, is_packed: bool) -> None:
    func = in_vectors(kernel(SCALES[0], 0, dtype, False), lanes)
    assert ("packuswb" in code(func, ZEN4)) is is_packed
    assert "packuswb" not in code(func, PLAIN)


@pytest.mark.parametrize(("zero", "dtype"), [(0, "uint8"), (139, "uint8"), (-7, "int8")])
def test_integers_that_become_floats_at_once_are_the_same(zero: int, dtype: str) -> None:
    func, x = kernel(SCALES[1], zero, dtype, vector=True, wide=True), near_steps(SCALES[1], zero)
    made = outputs_by_machine(func, [x, np.zeros(COUNT, "float32")])[1]
    wanted = (by_numpy(x, SCALES[1], zero, dtype).astype("int32") - zero).astype("float32") * np.float32(SCALES[1])
    np.testing.assert_array_equal(made, wanted)


def code(func: PrimFunc, target: Target) -> str:
    return compile_artifact(func, target).blobs["ll"].decode()


def test_a_known_scale_divides_nothing_where_products_are_added_unrounded() -> None:
    func = kernel(SCALES[0], 124, "uint8", vector=True)
    assert "fdiv" not in code(func, ZEN4)
    assert "fdiv" in code(func, PLAIN)  # no fma
    assert "fdiv" in code(kernel(-1.0, 0, "uint8", vector=True), ZEN4)


def test_what_is_widened_at_once_is_not_narrowed() -> None:
    text = code(kernel(SCALES[0], 124, "uint8", vector=True, wide=True), ZEN4)
    assert "trunc <" not in text
    assert "zext <" not in text


@pytest.mark.parametrize("divisor", [np.float32(d) for d in np.random.default_rng(1).uniform(1e-4, 2, 12)])
def test_quotients_round_to_the_same_integers(divisor: np.float32) -> None:
    """Multiply many numbers in exact arithmetic."""
    found = quotient(float(divisor), -124, 131)
    assert found is not None
    rng = np.random.default_rng(2)
    steps = ((np.arange(-124, 131) + 0.5) * np.float64(divisor)).astype("float32")
    near = steps.view("int32")[:, None] + rng.integers(-40, 40, (255, 20), dtype="int32")
    tried = np.concatenate([near.view("float32").ravel(), rng.uniform(found.least, found.most, 5000).astype("float32")])
    tried = np.clip(tried, found.least, found.most)
    longer = tried.astype(np.longdouble)
    low = (longer * np.longdouble(found.low)).astype("float32")
    made = (longer * np.longdouble(found.high) + low.astype(np.longdouble)).astype("float32")
    np.testing.assert_array_equal(np.rint(made), np.rint(tried / divisor))


def test_divisors_that_are_out_of_range_are_refused() -> None:
    assert quotient(0.0, 0, 255) is None
    assert quotient(-1.0, 0, 255) is None
    assert quotient(float("inf"), 0, 255) is None
    assert quotient(0.5, 3, 3) is None
