"""Texts of TVM 0.27 that say otherwise than those before: lets, scalars, views, steps, memory, assertions."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.errors import IRError
from compiler.interp.interpreter import run
from compiler.ir.structural import assert_structural_equal
from compiler.ir.visit import walk
from compiler.runtime.core.ndarray import array
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimFunc

GIVEN = np.arange(16, dtype="float32") + 1


def read(*lines: str) -> PrimFunc:
    head = ["@T.prim_func(s_tir=True)", 'def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):']
    func = from_source("\n".join([*head, *(f"    {line}" for line in lines)]) + "\n")
    assert isinstance(func, PrimFunc)
    again = from_source(func.script())
    assert isinstance(again, PrimFunc)
    assert_structural_equal(func, again)
    return func


def result(*lines: str) -> list[float]:
    func = read(*lines)
    outs = np.zeros(16, "float32")
    run(func, GIVEN.copy(), outs)
    there = array(np.zeros(16, "float32"))
    build(func, target="llvm")(array(GIVEN), there)
    assert there.numpy().tolist() == outs.tolist()
    return list(outs.tolist())


@pytest.mark.parametrize("kind", ["T.let[T.float32]", "T.let"])
def test_a_let_keeps_its_value(kind: str) -> None:
    lines = ("for i in range(16):", f"    x: {kind} = A[i] * T.float32(2)", "    A[i] = 0.0", "    B[i] = x + x")
    assert result(*lines) == (GIVEN * 4).tolist()


def test_a_scalar_is_written_again() -> None:
    counted = result("x: T.int32 = -1", "for i in range(16):", "    x = x + 1", "    B[i] = A[x]")
    assert counted == GIVEN.tolist()
    summed = result("y: T.float32", "y = T.float32(0)", "for i in range(16):", "    y += A[i]", "B[0] = y")
    assert summed[0] == GIVEN.sum()
    plain = result("y = A[0] + T.float32(1)", "for i in range(4):", "    y = y * T.float32(2)", "B[0] = y")
    assert plain[0] == 32


def test_in_texts_before_a_name_is_another_let() -> None:
    func = from_source(
        "@T.prim_func\n"
        'def main(A: T.Buffer((4,), "float32")):\n'
        "    x: T.float32 = 1.0\n"
        "    for i in range(4):\n"
        "        x = x + 1.0\n"
        "        A[i] = x\n"
    )
    assert isinstance(func, PrimFunc)
    found = np.zeros(4, "float32")
    run(func, found)
    assert found.tolist() == [2, 2, 2, 2]


def test_views_share_the_memory() -> None:
    lines = ("C = A.view(4, -1)", "D = B.view(2, 8)", "for i in range(16):", "    D[i // 8, i % 8] = C[i // 4, i % 4]")
    assert result(*lines) == GIVEN.tolist()
    bits = ('C = A.view("int32")', 'D = B.view("int32")', "for i in range(16):", "    D[i] = C[i]")
    assert result(*bits) == GIVEN.tolist()
    halves = read('C = A.view("int16")', 'B[0] = T.Cast("float32", C[31])')
    assert {node.buffer.shape[0].value for node in walk(halves.body) if isinstance(node, n.BufferLoad)} == {32}
    with pytest.raises(IRError, match="'A' has 16 elements, the view 12"):
        read("C = A.view(3, 4)", "B[0] = C[0, 0]")


def test_loops_have_steps() -> None:
    assert result("for i in range(1, 16, 4):", "    B[i] = A[i]") == [
        value if at % 4 == 1 else 0 for at, value in enumerate(GIVEN.tolist())
    ]
    assert result("for i in T.serial(0, 15, step=7):", "    B[i] = A[i]") == [
        value if at in (0, 7, 14) else 0 for at, value in enumerate(GIVEN.tolist())
    ]
    with pytest.raises(IRError, match="a positive constant as step"):
        read("for i in range(16, 0, -1):", "    B[i] = A[i]")


def test_memory_has_annotations_and_scopes_in_its_name() -> None:
    func = read(
        'C = T.alloc_buffer((16,), annotations={"buffer_allocated_addr": [], "buffer_data_alignment": 64, "mine": 1})',
        "D = T.alloc_local((16,))",
        "for i in range(16):", "    C[i] = A[i]", "    D[i] = C[i]", "    B[i] = D[i]",
    )  # fmt: skip
    first, second = (node for node in walk(func.body) if isinstance(node, n.Allocate))
    assert first.annotations == {"mine": 1}
    assert second.scope == "local"


def test_assertions_tell_the_kind_of_error() -> None:
    func = read('assert A[0] > T.float32(0), ("ValueError", ["A", " is empty"])', "B[0] = A[0]")
    (found,) = (node for node in walk(func.body) if isinstance(node, n.AssertStmt))
    assert repr(found.message) == '"ValueError: A is empty"'


def test_there_is_no_break() -> None:
    with pytest.raises(IRError, match="no break and no continue"):
        read("for i in range(16):", "    T.break_loop()")


def test_a_target_with_a_host_is_a_table() -> None:
    target = Target("llvm -num-cores=4", host="llvm -mcpu=skylake")
    func = read("B[0] = A[0]").with_attr("target", target)
    assert 'T.target({"kind": "llvm"' in func.script()
    again = from_source(func.script())
    assert again.attrs["target"] == target
