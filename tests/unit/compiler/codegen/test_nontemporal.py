"""Loops whose vectors are stored past the caches."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import build, compile_artifact, lower
from compiler.interp import interpreter as interp
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.te.schedule.schedule import Schedule as TeSchedule
from compiler.te.schedule.schedule import create_schedule
from compiler.te.tensor import Tensor
from compiler.tir.nodes import PrimFunc
from compiler.topi.schedules import generic
from tests.kit.compiler.lowering import HOST

NOTE = "pragma_nontemporal"
AVX2 = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3")


def doubled(count: int, parallel: bool) -> PrimFunc:
    """out = x * 2 by vectors of 8 under a noted loop, in tasks of 64."""
    x = te.placeholder((count,), name="x")
    schedule = Schedule(create_prim_func([x, te.compute((count,), lambda i: x[i] * 2.0, name="y")]))
    (loop,) = schedule.get_loops(schedule.get_block("y"))
    task, vectors, lane = schedule.split(loop, [None, 8, 8])
    schedule.annotate(vectors, NOTE, 1)
    schedule.vectorize(lane)
    if parallel:
        schedule.parallel(task)
    func = schedule.mod["main"]
    assert isinstance(func, PrimFunc)
    return func


def assembly(func: PrimFunc, target: Target = AVX2) -> str:
    return compile_artifact(func, target, name="main", keep=("asm",)).blobs["asm"].decode()


@pytest.mark.parametrize("count", [64, 1024, 1000, 9, 8000])
@pytest.mark.parametrize("parallel", [False, True])
def test_values(count: int, parallel: bool) -> None:
    func = doubled(count, parallel)
    x, out = np.arange(count, dtype="float32"), np.zeros(count, "float32")
    interp.run(func, x, out)
    np.testing.assert_array_equal(out, x * 2)
    held = array(np.zeros(count, "float32"))
    build(func, target=HOST)(array(x), held)
    np.testing.assert_array_equal(held.numpy(), x * 2)


@pytest.mark.parametrize("parallel", [False, True])
def test_stores_are_streamed_and_seen_before_the_end(parallel: bool) -> None:
    """Each function that stores so ends with a fence, after the last such store."""
    text = assembly(doubled(1024, parallel))
    assert "vmovntps" in text
    body = next(part for part in text.split("\tret") if "vmovntps" in part)
    assert re.search(r"mfence|lock", body[body.rindex("vmovntps") :])


def test_pairs_of_registers_on_arm() -> None:
    assert "stnp" in assembly(doubled(1024, False), Target("llvm -mtriple=aarch64-linux-gnu"))


def test_temporaries_go_through_the_caches() -> None:
    """A kernel's own temporaries are read again at once, so they stay in the caches."""
    x = te.placeholder((64, 64), name="x")
    y = te.compute((64, 64), lambda i, j: x[i, j] * 2.0, name="y")
    z = te.compute((64, 64), lambda i, j: y[i, j] + y[i, 63 - j], name="z")
    s = create_schedule([z.op])
    row = s[z].op.axis[0]
    s[y].compute_at(s[z], row)
    s[y].vectorize(s[y].split(s[y].op.axis[1], factor=8)[1])
    s[z].pragma(row, "nontemporal", 1)
    assert "vmovnt" not in assembly(lowered(s, [x, z]))


def lowered(s: TeSchedule, args: list[Tensor]) -> PrimFunc:
    func = lower(s, args)["main"]
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("rows", [1024, 8192])
@pytest.mark.parametrize("make", [topi.exp, topi.nn.softmax])
def test_schedules_stream_what_is_larger_than_the_caches(make: Callable[..., Tensor], rows: int) -> None:
    x = te.placeholder((rows, 1024), name="x")
    how = generic.schedule_softmax if make is topi.nn.softmax else generic.schedule_injective
    y = make(x)
    text = str(lowered(how(AVX2, [y]), [x, y]))
    assert (NOTE in text) == (rows == 8192)
