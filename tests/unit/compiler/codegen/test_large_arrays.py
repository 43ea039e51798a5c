"""Arrays of more than 2^31 elements: the machine code's arithmetic is read, no such memory is taken."""

from __future__ import annotations

import re

import pytest

from compiler.driver.build import build
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule
from compiler.te.operation import compute, placeholder, size_var
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimExpr, PrimFunc


def transposed(rows: PrimExpr | int, cols: PrimExpr | int) -> Schedule:
    a = placeholder((cols, rows), name="A")
    return Schedule(create_prim_func([a, compute((rows, cols), lambda i, j: a[j, i] * 2.0, name="B")]))


def llvm_of(func: PrimFunc) -> str:
    text = build(func, target="llvm").get_source("ll")
    return text[: text.index('define void @"default_function"')]


def narrow_arithmetic(text: str) -> list[str]:
    """Instructions that compute in 32 bits, other than comparing the lanes' numbers with a clamped limit."""
    return re.findall(r"^.*= (?:add|sub|mul|sdiv|srem|udiv|urem|shl)[a-z ]* (?:i32|<\d+ x i32>) .*$", text, re.M)


def fused(sch: Schedule) -> Schedule:
    loop = sch.fuse(*sch.get_loops(sch.get_block("B")))
    sch.vectorize(sch.split(loop, [None, 16])[1])
    return sch


def row_vectors(sch: Schedule) -> Schedule:
    sch.vectorize(sch.split(sch.get_loops(sch.get_block("B"))[1], [None, 16])[1])
    return sch


@pytest.mark.parametrize("schedule", [fused, row_vectors, lambda sch: sch], ids=["fused", "rows", "serial"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_positions_in_arrays_of_unknown_size(schedule: object, dtype: str) -> None:
    assert callable(schedule)
    text = llvm_of(schedule(transposed(size_var("n", dtype), size_var("m", dtype))).func)
    assert narrow_arithmetic(text) == []


def test_the_mask_of_a_tail_near_the_end_of_int32() -> None:
    """i*32 + lane may pass 2^31 - 1 in the last vector, so the limit is compared relative to the vector's start."""
    size = size_var("n")
    a = placeholder((size,), name="A")
    sch = Schedule(create_prim_func([a, compute((size,), lambda i: a[i] * 2.0, name="B")]))
    sch.vectorize(sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 32])[1])
    text = llvm_of(sch.func)
    assert narrow_arithmetic(text) == []
    assert "@llvm.masked.store" in text
    assert re.search(r"call i64 @llvm.smin.i64\(i64 %\w+, i64 1073741824\)", text)


@pytest.mark.parametrize("schedule", [row_vectors, lambda sch: sch], ids=["rows", "serial"])
def test_positions_in_large_constant_shapes(schedule: object) -> None:
    assert callable(schedule)
    text = llvm_of(schedule(transposed(1 << 16, 1 << 16)).func)
    rows_of_lanes = [line for line in narrow_arithmetic(text) if "mul" in line]
    assert rows_of_lanes == []
    assert "mul" in text


def test_fusing_further_than_int32_counts_is_refused() -> None:
    with pytest.raises(ScheduleError, match="the fused loop would have 4294967296 iterations") as caught:
        fused(transposed(1 << 16, 1 << 16))
    assert "int64 extents" in str(caught.value)


def test_a_fused_loop_counts_in_its_widest_extents_dtype() -> None:
    sch = transposed(24, size_var("n", "int64"))
    loop = sch.fuse(*sch.get_loops(sch.get_block("B")))
    assert sch.get(loop).loop_var.dtype == "int64"
