"""PTX of small kernels, as text. Written anew with UPDATE_GOLDEN=1, to be read before it is committed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from compiler.codegen.llvm.llvm import llvm_version
from compiler.driver.build import compile_artifact, lower
from compiler.te.operation import compute, placeholder, reduce_axis, thread_axis
from compiler.te.reduction import sum as te_sum
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n

FOLDER = Path(__file__).parent / "ptx"
VERSION = (FOLDER / "llvm-version").read_text().strip() if (FOLDER / "llvm-version").exists() else llvm_version()


def vector_add() -> tuple[Schedule, list[Tensor]]:
    size = n.Var("n", "int32")
    a, b = (placeholder((size,), name=name) for name in "AB")
    c = compute((size,), lambda i: a[i] + b[i], name="C")
    s = create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(block, thread_axis("blockIdx.x"))
    s[c].bind(thread, thread_axis("threadIdx.x"))
    return s, [a, b, c]


def four_at_once() -> tuple[Schedule, list[Tensor]]:
    a = placeholder((1024,), "float16", name="A")
    c = compute((1024,), lambda i: a[i] * a[i], name="C")
    s = create_schedule(c.op)
    rest, lane = s[c].split(c.op.axis[0], factor=8)
    block, thread = s[c].split(rest, factor=64)
    s[c].vectorize(lane)
    s[c].bind(block, thread_axis("blockIdx.x"))
    s[c].bind(thread, thread_axis("threadIdx.x"))
    return s, [a, c]


def reversed_rows() -> tuple[Schedule, list[Tensor]]:
    a = placeholder((4, 64), name="A")
    shared = compute((4, 64), lambda i, j: a[i, j] * 2.0, name="S")
    b = compute((4, 64), lambda i, j: shared[i, 63 - j], name="B")
    s = create_schedule(b.op)
    s[b].bind(b.op.axis[0], thread_axis("blockIdx.x"))
    s[b].bind(b.op.axis[1], thread_axis("threadIdx.x"))
    s[shared].compute_at(s[b], b.op.axis[0])
    s[shared].bind(s[shared].op.axis[1], thread_axis("threadIdx.x"))
    return s, [a, b]


def row_sums() -> tuple[Schedule, list[Tensor]]:
    a = placeholder((4, 128), name="A")
    k = reduce_axis((0, 128), name="k")
    b = compute((4,), lambda i: te_sum(a[i, k], axis=k), name="B")
    s = create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=64)
    s[b].bind(b.op.axis[0], thread_axis("blockIdx.x"))
    s[b].bind(inner, thread_axis("threadIdx.x"))
    return s, [a, b]


@pytest.mark.parametrize("make", [vector_add, four_at_once, reversed_rows, row_sums], ids=lambda f: f.__name__)
def test_ptx(make) -> None:
    schedule, args = make()
    module = lower(schedule, args, name=make.__name__)
    text = compile_artifact(module, "cuda -arch=sm_80").blobs["ptx"].decode()
    path = FOLDER / f"{make.__name__}.ptx"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
        (FOLDER / "llvm-version").write_text(llvm_version() + "\n")
    if llvm_version() != VERSION and not os.environ.get("UPDATE_GOLDEN"):
        pytest.skip(f"the texts are LLVM {VERSION}'s, this is {llvm_version()}")
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("name", "instructions"),
    [
        ("vector_add", ["setp", "ld.global.nc", "st.global"]),
        ("four_at_once", ["ld.global.nc.v4.b32", "mul.f16x2", "st.global.v4.b32"]),
        ("reversed_rows", ["st.shared", "bar.sync", "ld.shared"]),
        ("row_sums", ["shfl.sync.bfly.b32", "bar.sync", "ld.shared.v2.b32"]),
    ],
)
def test_the_texts_have_what_they_are_for(name: str, instructions: list[str]) -> None:
    text = (FOLDER / f"{name}.ptx").read_text()
    places = [found.start() if (found := re.search(re.escape(i), text)) else -1 for i in instructions]
    assert min(places) >= 0, instructions[places.index(-1)]
    assert places == sorted(places)
