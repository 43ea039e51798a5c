"""Floats of integers that have at most 16 values, looked up in a register: machine code against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, PrimFunc
from tests.kit.compiler.lowering import outputs_by_machine

AVX512, AVX2 = (Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}") for cpu in ("znver4", "znver3"))
LOOK_UP = "permvar.sf.512"
COUNT = 192


def kernel(value: Callable[[PrimExpr], PrimExpr], lanes: int, held: str = "int32", made: str = "float32") -> PrimFunc:
    """Make `value` of each integer, so many at a time."""
    x, y = n.decl_buffer((COUNT,), held, "x"), n.decl_buffer((COUNT,), made, "y")
    outer, inner = n.Var("o"), n.Var("i")
    at = outer * lanes + inner
    store = n.BufferStore(y, ops.cast(made, value(x[at])), (at,))
    lane = n.For(inner, ops.const(0), ops.const(lanes), ForKind.VECTORIZED, store)
    loop = n.For(outer, ops.const(0), ops.const(COUNT // lanes), ForKind.SERIAL, lane)
    params = (n.Var("p0", "handle"), n.Var("p1", "handle"))
    return PrimFunc(params, loop, None, {params[0]: x, params[1]: y}, {"tir.noalias": True, "global_symbol": "main"})


def code(func: PrimFunc, target: Target = AVX512) -> str:
    return compile_artifact(func, target).blobs["ll"].decode()


def integers(dtype: str) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(0).integers(info.min, info.max, COUNT, dtype, endpoint=True)


@pytest.mark.parametrize("lanes", [1, 4, 16, 32, 48, 64])
@pytest.mark.parametrize("mask", [0, 1, 5, 7, 15])
def test_bits_become_the_same_floats(mask: int, lanes: int) -> None:
    x = integers("int32")
    made = outputs_by_machine(kernel(lambda v: (v & mask) - 8, lanes), [x, np.zeros(COUNT, "float32")])[1]
    np.testing.assert_array_equal(made, ((x & mask) - 8).astype("float32"))


@pytest.mark.parametrize("seed", range(12))
def test_what_follows_a_mask_is_in_the_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask, shift = int(rng.integers(0, 16)), int(rng.integers(0, 28))
    steps = [(int(kind), int(by)) for kind, by in zip(rng.integers(0, 3, 3), rng.integers(-40, 40, 3))]

    def value(v: Any) -> Any:
        v = (v >> shift) & mask
        for kind, by in steps:
            v = v + by if kind == 0 else v - by if kind == 1 else v * by
        return v

    x, func = integers("int32"), kernel(value, 16)
    made = outputs_by_machine(func, [x, np.zeros(COUNT, "float32")])[1]
    np.testing.assert_array_equal(made, value(x).astype("float32"))


def test_weights_of_4_bits_are_looked_up() -> None:
    def value(v: PrimExpr) -> PrimExpr:
        return ((ops.cast("int32", v) >> 4) & 15) - 8

    func, x = kernel(value, 32, "uint8"), integers("uint8")
    text = code(func)
    assert LOOK_UP in text
    assert "sitofp" not in text
    assert LOOK_UP not in code(func, AVX2)
    made = outputs_by_machine(func, [x, np.zeros(COUNT, "float32")])[1]
    np.testing.assert_array_equal(made, ((x.astype("int32") >> 4) - 8).astype("float32"))


@pytest.mark.parametrize(
    ("value", "held", "made"),
    [
        (lambda v: v & 31, "int32", "float32"),  # more values than a register has
        (lambda v: v & -1, "int32", "float32"),
        (lambda v: ((v & 15) << 20) - 8, "int32", "float32"),
        (lambda v: (v & 15) * (1 << 21), "int32", "float32"),  # more than float32 has digits for
        (lambda v: v & 15, "int64", "float32"),
        (lambda v: v & 15, "int32", "float64"),
        (lambda v: v & v, "int32", "float32"),
    ],
)
def test_others_are_converted(value: Callable[[Any], Any], held: str, made: str) -> None:
    func, x = kernel(value, 16, held, made), integers(held)
    assert LOOK_UP not in code(func)
    found = outputs_by_machine(func, [x, np.zeros(COUNT, made)])[1]
    np.testing.assert_array_equal(found, value(x).astype(made))
