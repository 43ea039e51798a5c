"""Products of narrow numbers on CPUs without an instruction for groups of them: packed operands are widened once."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.pipeline import lower_func
from compiler.dtype import holds_all_of
from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.prim_func import create_prim_func
from compiler.te.reduction import sum as te_sum
from tests.kit.compiler.narrow.products import numbers, operands, product
from tests.kit.tuner.sketch_points import at_point
from tuner.space.generate import generate

PLAIN = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2 -num-cores=2")


@pytest.mark.parametrize(
    ("wide", "narrow", "holds"),
    [
        ("int16", "int8", True), ("int16", "uint8", True), ("uint16", "int8", False), ("int8", "uint8", False),
        ("float32", "bfloat16", True), ("float32", "float16", True), ("float16", "bfloat16", False),
        ("bfloat16", "float16", False), ("float32", "int16", True), ("float32", "int32", False),
        ("float64", "int32", True), ("bfloat16", "int8", True), ("int32", "float16", False), ("bool", "bool", True),
    ],
)  # fmt: skip
def test_which_dtype_holds_all_of_another(wide, narrow, holds):
    assert holds_all_of(wide, narrow) is holds


@pytest.mark.parametrize(("dtype", "wide"), [("bfloat16", "float32"), ("int8", "int32")])
def test_packed_operands_are_converted_once(dtype, wide):
    func = product((6, 16, 8), dtype, dtype, wide)
    [sketch] = [s for s in generate(func, PLAIN) if s.name == "panels+pack2"]
    point = sketch.random(np.random.default_rng(0))
    scheduled = at_point(func, sketch, point)
    text = str(scheduled)
    assert f'T.Cast("{wide}", A[' in text
    assert f'T.Cast("{wide}", A_global[' not in text
    held = operands((6, 16, 8), dtype, dtype)
    out = np.zeros((6, 16), wide)
    run(lower_func(scheduled, 128), *held, out)
    x, y = (numbers(h) if dtype == "bfloat16" else h.astype("int32") for h in held)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns", "once"), [(64, 128, True), (16, 128, False), (64, 16, False)])
def test_rows_that_are_used_often_are_converted_once(rows, columns, once):
    func = product((rows, columns, 8), "bfloat16", "bfloat16", "float32")
    [sketch] = [s for s in generate(func, PLAIN) if s.name == "panels+pack"]
    point = sketch.random(np.random.default_rng(0))
    scheduled = at_point(func, sketch, point)
    assert ('= T.Cast("float32", A[' in str(scheduled)) is once
    held = operands((rows, columns, 8), "bfloat16", "bfloat16")
    out = np.zeros((rows, columns), "float32")
    run(lower_func(scheduled, 128), *held, out)
    np.testing.assert_allclose(out, numbers(held[0]) @ numbers(held[1]), rtol=1e-5, atol=1e-5)


def test_rows_that_are_a_result_keep_their_dtype():
    x, y = placeholder((64, 8), name="X"), placeholder((8, 128), "bfloat16", name="Y")
    rows, k = compute((64, 8), lambda i, j: x[i, j].astype("bfloat16"), name="R"), reduce_axis((0, 8), name="k")
    out = compute(
        (64, 128), lambda i, j: te_sum(rows[i, k].astype("float32") * y[k, j].astype("float32"), axis=k), name="C"
    )
    func = create_prim_func([x, y, rows, out])
    [sketch] = [s for s in generate(func, PLAIN) if s.name == "panels+pack"]
    scheduled = apply_trace(func, Trace.from_json(sketch.trace_json(sketch.random(np.random.default_rng(0))))).func
    assert [buffer.dtype for buffer in scheduled.buffer_map.values()] == ["float32", "bfloat16", "bfloat16", "float32"]


def test_a_widened_buffer_is_cast_back_where_its_own_dtype_counts():
    func = product((4, 8, 4), "uint8", "uint8", "int32", in_between="uint8")  # a product that wraps
    sch = Schedule(func)
    copy = sch.cache_read(sch.get_block("C"), 0, "global")
    sch.unsafe_set_dtype(copy, 0, "int32")
    held = operands((4, 8, 4), "uint8", "uint8")
    out = np.zeros((4, 8), "int32")
    run(lower_func(sch.func, 128), *held, out)
    products = (held[0][:, :, None] * held[1][None]).astype("uint8")
    np.testing.assert_array_equal(out, products.astype("int32").sum(1))
