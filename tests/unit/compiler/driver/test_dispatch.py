"""One entry over several kernels: the native choice is the rule's, whatever the rule."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.artifact import NO_KERNEL, ArgSpec, Artifact
from compiler.driver.build import compile_artifact
from compiler.driver.dispatch import DispatchedEntry, dispatch_artifact
from compiler.errors import CodegenError
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.files.header import header
from compiler.runtime.load import load_artifact
from compiler.size_rule import SizeRule, SizeTest, Tree
from compiler.target.target import Target
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from compiler.tir import nodes as n

HOST = Target.host()
NUMBERS = st.integers(1, 40)
PICKS = st.integers(0, 2)
VALUES = st.sampled_from(["M", "N", "M*N", "M % 8", "(M + N) // 3", "N % 16 + M"])


@functools.cache
def kernel(number: int, rows: int | None = None, columns: int | None = None) -> Artifact:
    """Adds its number to what it is given; for all sizes, or for one."""
    m = n.SizeVar("M", "int32") if rows is None else rows
    k = n.SizeVar("N", "int32") if columns is None else columns
    a = placeholder((m, k), name="A")
    out = compute((m, k), lambda i, j: a[i, j] + float(number), name="B")
    return compile_artifact(create_prim_func([a, out]), HOST, name=f"k{number}_{rows}_{columns}")


def dispatched(rule: SizeRule, kernels: list[Artifact], name: str = "chosen") -> Artifact:
    [own] = kernel(0).entries
    return dispatch_artifact(DispatchedEntry(name, own.args, own.outputs, own.implicit), rule, kernels, HOST)


def trees(depth: int) -> st.SearchStrategy[Tree]:
    if not depth:
        return PICKS
    return st.one_of(PICKS, st.builds(SizeTest, VALUES, NUMBERS, trees(depth - 1), trees(depth - 1)))


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.tuples(NUMBERS, NUMBERS), PICKS, max_size=5), trees(3), st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_the_native_choice_is_the_rules(
    known: dict[tuple[int, int], int], tree: Tree, more: list[tuple[int, int]]
) -> None:
    rule = SizeRule(("M", "N"), known, tree)
    made = dispatched(rule, [kernel(number) for number in range(3)])
    chosen = load_artifact(Artifact.from_bytes(made.to_bytes()))["chosen"]
    for size in [*known, (1, 1), *more[:4]]:
        out = empty(size)
        chosen(array(np.zeros(size, "float32")), out)
        assert (out.numpy() == rule.pick(size)).all(), (size, rule)


def test_kernels_for_constant_sizes_and_a_size_without_one() -> None:
    rule = SizeRule(("M", "N"), {(2, 3): 0, (2, 5): 1}, -1)
    chosen = load_artifact(dispatched(rule, [kernel(1, 2, 3), kernel(2, 2, 5)]))["chosen"]
    for columns, wanted in ((3, 1.0), (5, 2.0)):
        out = empty((2, columns))
        chosen(array(np.zeros((2, columns), "float32")), out)
        assert (out.numpy() == wanted).all()
    with pytest.raises(KernelError, match="no kernel for these sizes") as told:
        chosen(array(np.zeros((4, 4), "float32")), empty((4, 4)))
    assert told.value.detail["code"] == NO_KERNEL


def test_what_does_not_fit_is_refused() -> None:
    rule = SizeRule(("M", "N"), {}, 0)
    [own] = kernel(0).entries
    with pytest.raises(CodegenError, match="one symbol"):
        dispatched(rule, [kernel(0), kernel(0)])
    entry = DispatchedEntry("x", (ArgSpec("A", "float32", ("M",)),), (0,), own.implicit)
    with pytest.raises(CodegenError, match="does not take"):
        dispatch_artifact(entry, rule, [kernel(0)], HOST)
    with pytest.raises(CodegenError, match="goes by K"):
        dispatched(SizeRule(("K",), {}, 0), [kernel(0)])
    with pytest.raises(CodegenError, match="no code"):
        dispatched(SizeRule(("M", "N"), {}, SizeTest("M - N", 1, 0, 0)), [kernel(0)])
    with pytest.raises(CodegenError, match="on CPUs"):
        dispatch_artifact(DispatchedEntry("x", own.args, own.outputs, own.implicit), rule, [], "cuda -arch=sm_90")


def test_c_programs_call_it(tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = dispatched(SizeRule(("M", "N"), {}, 1), [kernel(0), kernel(1)])
    assert "void chosen(" in header(made)
