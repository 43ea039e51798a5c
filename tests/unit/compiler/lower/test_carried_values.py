"""Temporaries live in the loops that carry none of their values to a later iteration, and outside the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.interp.interpreter import run
from compiler.lower.blocks.lower_init import lower_init
from compiler.lower.blocks.plan_allocation import plan_allocation
from compiler.runtime.core.ndarray import array
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from tunefarm import te
from tunefarm.tir import ir_builder


def _func(*lines: str, shape: str = "(32,)", kind: str = "") -> PrimFunc:
    text = [
        "@T.prim_func",
        'def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32"), P: T.Buffer((32,), "int32")):',
        '    with T.block("all"):',
        "        T.reads()",
        "        T.writes()",
        f'        B = T.alloc_buffer({shape}, "float32"{kind})',
        *(f"        {line}" for line in lines),
    ]
    func = from_source("\n".join(text) + "\n")
    assert isinstance(func, PrimFunc)
    return func


def _depth(func: PrimFunc) -> int:
    """In how many loops the temporary lies."""
    text = plan_allocation(lower_init(func)).script()
    line = next(line for line in text.splitlines() if "B = T.alloc_buffer" in line)
    before = text[: text.index(line)].splitlines()
    indent, loops = len(line) - len(line.lstrip()), 0
    for earlier in reversed(before):
        here = len(earlier) - len(earlier.lstrip())
        if here < indent:
            indent = here
            loops += earlier.lstrip().startswith("for ") and 1 + earlier.partition(" in ")[0].count(",")
    return loops


CARRIED = {
    "the element before": ("for i in range(8):", "    B[i] = A[i]", "    C[i] = B[T.max(i - 1, 0)]"),
    "written in the first iteration": (
        "for i in range(8):", "    if i == 0:", "        B[0] = A[i]", "    C[i] = B[0]",
    ),
    "added up": (
        "for i in range(8):", "    if i == 0:", "        B[0] = 0.0", "    B[0] = B[0] + A[i]", "    C[i] = B[0]",
    ),
    "where memory says": (
        "for i in range(8):", "    B[P[i]] = A[i]", "    C[i] = B[P[(i + 1) % 8]]",
    ),
    "where memory says, which changes": (
        "for i in range(8):", "    B[P[0]] = A[i]", "    P[0] = P[0] + 1", "    C[i] = B[P[0]]",
    ),
    "every second element written": (
        "for i in range(8):", "    for j in range(4):", "        B[j * 2] = A[j]",
        "    for j in range(8):", "        C[j] = C[j] + B[j]", "        B[j] = A[j]",
    ),
    "an outer loop": (
        "for r in range(2):", "    for i in range(8):", "        if r == 0:", "            B[i] = A[i]",
        "        C[i] = C[i] + B[i]",
    ),
    "under a condition that changes": (
        "for i in range(8):", "    if A[i] > T.float32(0):", "        B[0] = A[i]", "    A[i] = 1.0",
        "    if A[i] > T.float32(0):", "        C[i] = B[0]",
    ),
    "a name that is worked out": (
        "for i in range(8):", "    for j in range(4):", "        B[j] = A[i]",
        "    for j in range(4):", "        k = T.int32()", "        with T.LetStmt(j + P[i], var=k):",
        "            C[i] = C[i] + B[k]", "            B[k] = A[i]",
    ),
    "written after": ("for i in range(8):", "    C[i] = B[0]", "    B[0] = A[i]"),
    "the same statement": ("for i in range(8):", "    B[0] = B[0] + A[i]", "    C[i] = B[0]"),
    "one of two ways": (
        "for i in range(8):", "    if i % 2 == 0:", "        B[0] = A[i]", "    else:", "        C[i] = B[0]",
    ),
}  # fmt: skip

ALONE = {
    "an element of its own": (("for i in range(8):", "    B[i] = A[i]", "    C[i] = B[i]"), 1),
    "a tile of its own, in part": (
        (
            "for i in range(8):", "    for j in range(4):", "        if A[j] > T.float32(0):",
            "            B[i * 4 + j] = A[j]", "    for j in range(4):", "        C[i * 4 + j] = B[i * 4 + j]",
        ),
        1,
    ),
    "all that it reads": (
        (
            "for i in range(8):", "    for j in range(6):", "        B[i + j] = A[j]", "    for j in range(4):",
            "        C[j] = B[i + j + 1] + B[i + j + 2]",
        ),
        1,
    ),
    "all of it, where memory says later": (
        ("for i in range(8):", "    for j in range(32):", "        B[j] = A[j]", "    C[i] = B[P[i]]"), 1,
    ),
    "up to the end": (
        (
            "for i in range(8):", "    for j in range(7):", "        if i * 4 + j < 32:",
            "            B[i * 4 + j] = A[j]", "    for j in range(7):", "        if i * 4 + j < 32:",
            "            C[j] = C[j] + B[i * 4 + j]",
        ),
        1,
    ),
    "up to the end of the tile": (
        (
            "for i in range(4):", "    for j, k in T.grid(2, 4):", "        if j * 4 + k < 6:",
            "            B[i * 5 + (j * 4 + k)] = A[k]", "    for j in range(6):", "        C[j] = C[j] + B[i * 5 + j]",
        ),
        1,
    ),
    "from its own first step on": (
        (
            "for i in range(8):", "    for k in range(4):", "        for j in range(4):", "            if k == 0:",
            "                B[j] = 0.0", "            B[j] = B[j] + A[k]", "    for j in range(4):",
            "        C[i * 4 + j] = B[j]",
        ),
        1,
    ),
    "in both loops": (
        ("for i in range(4):", "    for j in range(8):", "        B[0] = A[j]", "        C[i * 8 + j] = B[0]"), 2,
    ),
    "fused places": (
        (
            "for i in range(4):", "    for j in range(8):", "        B[j // 4 * 4 + j % 4] = A[j]",
            "    for j in range(8):", "        C[i * 8 + j] = B[j // 4 * 4 + j % 4]",
        ),
        1,
    ),
    "threads at once": (("for i in T.parallel(8):", "    B[0] = A[i]", "    C[i] = B[0]"), 1),
    "never read": (("for i in range(8):", "    B[0] = A[i]"), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIED)
def test_loops_that_carry_values_keep_the_temporary_outside(name: str) -> None:
    assert _depth(_func(*CARRIED[name])) == 0


@pytest.mark.parametrize("name", ALONE)
def test_loops_that_carry_nothing_hold_the_temporary(name: str) -> None:
    lines, depth = ALONE[name]
    assert _depth(_func(*lines)) == depth


@pytest.mark.parametrize("name", [*CARRIED, *ALONE])
def test_machine_code_computes_what_the_interpreter_does(name: str) -> None:
    func = _func(*(CARRIED[name] if name in CARRIED else ALONE[name][0]))
    rng = np.random.default_rng(0)
    given = [rng.uniform(-1, 1, 32).astype("float32"), np.zeros(32, "float32"), np.arange(32, dtype="int32") % 5]
    wanted = [a.copy() for a in given]
    run(func, *wanted)
    there = [array(a) for a in given]
    build(func, target="llvm")(*there)
    made = ~np.isnan(wanted[1])
    np.testing.assert_allclose(there[1].numpy()[made], wanted[1][made], rtol=1e-6)


def test_an_extern_temporary_keeps_what_the_iteration_before_wrote() -> None:
    given = te.placeholder((6,), "int32", name="given")

    def body(ins: Any, outs: Any) -> Any:
        ib = ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        kept = ib.allocate("int32", (6,), "kept")
        with ib.for_range(0, 6, "i") as i:
            kept[i] = source[i]
            with ib.if_scope(i > 0):
                result[i] = kept[i - 1]
            with ib.else_scope():
                result[i] = 0
        return ib.get()

    found = te.extern((6,), [given], body, name="found", dtype="int32")
    module = build(te.create_schedule(found.op), [given, found], target="llvm")
    out = array(np.zeros(6, "int32"))
    module(array(np.array([5, 6, 7, 8, 9, 10], "int32")), out)
    assert out.numpy().tolist() == [0, 5, 6, 7, 8, 9]
