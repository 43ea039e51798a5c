"""Extents that a call tells: bound from the arrays, checked, and handed to the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.driver.build import build, compile_artifact, lower
from compiler.errors import ArgumentError, ArtifactError, CodegenError
from compiler.extents import parse_extent
from compiler.interp.interpreter import run
from compiler.lower.blocks.shape_vars import extent_text, names_for
from compiler.runtime.core.device import cpu
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.te.operation import compute, placeholder, size_var, var
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc


def doubled(dtype: str = "int32") -> PrimFunc:
    """B has n*2 elements of A's n, C has n + 1."""
    size = size_var("n", dtype)
    a = placeholder((size,), name="A")
    b = compute((size * 2,), lambda i: a[ops.floordiv(i, 2)] * 2.0, name="B")
    c = compute((size + 1,), lambda i: b[ops.minimum(i, size * 2 - 1)] + 1.0, name="C")
    return create_prim_func([a, b, c])


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, "float32")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_one_build_runs_at_any_size(dtype: str) -> None:
    func = doubled(dtype)
    module = build(func, target="llvm")
    for size in (1, 2, 5, 8, 100):
        x = np.arange(size, dtype="float32")
        b, c = array(zeros(2 * size)), array(zeros(size + 1))
        module(array(x), b, c)
        np.testing.assert_array_equal(b.numpy(), np.repeat(x, 2) * 2)
        by_interpreter = [x, zeros(2 * size), zeros(size + 1)]
        run(func, *by_interpreter)
        np.testing.assert_array_equal(c.numpy(), by_interpreter[2])


@pytest.fixture(scope="module")
def module() -> Module:
    return build(doubled(), target="llvm")


def test_a_mismatch_names_argument_dimension_expression_and_values(module: Module) -> None:
    with pytest.raises(ArgumentError) as caught:
        module(array(zeros(5)), array(zeros(7)), array(zeros(6)))
    assert caught.value.message == (
        "default_function: argument 1 (B) has shape (7,): its dimension 0 is 7, but n*2 is 10 "
        "(n = 5 from dimension 0 of argument 0 (A))"
    )
    assert caught.value.hint == "the function was built for float32[n*2]"
    assert caught.value.detail["dimension"] == 0
    assert (caught.value.detail["expected"], caught.value.detail["actual"]) == (10, 7)
    module(array(zeros(5)), array(zeros(10)), array(zeros(6)))
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\) .* but n \+ 1 is 6"):
        module(array(zeros(5)), array(zeros(10)), array(zeros(5)))


def test_everything_else_is_still_checked(module: Module) -> None:
    fits = array(zeros(5)), array(zeros(10)), array(zeros(6))
    module(*fits)
    for bad, match in [
        ((fits[0], fits[1]), "takes 3 arguments, 2 given"),
        ((fits[0], array(np.zeros(10)), fits[2]), r"argument 1 \(B\) has dtype float64"),
        ((fits[0], array(zeros(10, 1)), fits[2]), r"argument 1 \(B\) has shape \(10, 1\)"),
        ((np.zeros(5, "float32"), *fits[1:]), r"argument 0 \(A\) must be an NDArray \(float32\[n\]\)"),
    ]:
        with pytest.raises(ArgumentError, match=match):
            module(*bad)


def scaled() -> PrimFunc:
    size, factor = var("n"), var("factor", "float32")
    a = placeholder((size, 128), name="A")
    b = compute((size, 128), lambda i, j: a[i, j] * factor, name="B")
    return create_prim_func([size, a, factor, b])


def test_a_size_may_be_passed_and_is_checked() -> None:
    module = build(scaled(), target="llvm")
    x = np.random.default_rng(0).random((3, 128), "float32")
    out = array(zeros(3, 128))
    for factor in (2.0, 3.0):
        module(3, array(x), factor, out)
        np.testing.assert_array_equal(out.numpy(), x * np.float32(factor))
    with pytest.raises(ArgumentError, match=r"argument 1 \(A\) .* dimension 0 is 3, but n is 4 \(n = 4 from arg"):
        module(4, array(x), 2.0, out)
    with pytest.raises(ArgumentError, match=r"\(A\) has shape \(3, 127\); the function was built for float32\[n, 128"):
        module(3, array(zeros(3, 127)), 2.0, out)


def test_two_variables_of_one_name() -> None:
    rows, cols = size_var("n"), size_var("n")
    a = placeholder((rows, cols), name="A")
    b = compute((cols, rows), lambda i, j: a[j, i], name="B")
    module = build(create_prim_func([a, b]), target="llvm")
    x = np.random.default_rng(0).random((3, 5), "float32")
    out = array(zeros(5, 3))
    module(array(x), out)
    np.testing.assert_array_equal(out.numpy(), x.T)
    with pytest.raises(ArgumentError, match=r"\(B\) .* but n_1 is 5"):
        module(array(x), array(zeros(3, 5)))


def test_it_goes_through_an_artifact_and_the_timer() -> None:
    artifact = compile_artifact(doubled(), "llvm", name="main")
    module = load_artifact(Artifact.from_bytes(artifact.to_bytes()))
    args = array(zeros(5)), array(zeros(10)), array(zeros(6))
    assert module.time_evaluator("main", cpu(0), number=2)(*args).mean > 0
    with pytest.raises(ArgumentError, match="dimension 0"):
        module.time_evaluator("main", cpu(0), number=2)(args[1], args[0], args[2])
    entry = artifact.entries[0]
    assert [arg.shape for arg in entry.args] == [("n",), ("n*2",), ("n + 1",)]
    assert entry.implicit[0].name == "n"


def test_a_lowered_function_builds_to_the_same() -> None:
    lowered = lower(doubled())
    module = build(lowered, target="llvm")
    x, b = np.arange(3, dtype="float32"), array(zeros(6))
    module(array(x), b, array(zeros(4)))
    np.testing.assert_array_equal(b.numpy(), np.repeat(x, 2) * 2)


def test_a_size_in_an_expression_only_is_refused() -> None:
    size = size_var("n")
    a = placeholder((size * 2,), name="A")
    with pytest.raises(CodegenError, match="the shape of argument 'A' has 'n' in an expression only") as caught:
        build(create_prim_func([a, compute((size * 2,), lambda i: a[i], name="B")]), target="llvm")
    assert "pass 'n' as an argument too" in str(caught.value)
    module = build(create_prim_func([size, a, compute((size * 2,), lambda i: a[i], name="B")]), target="llvm")
    out = array(zeros(6))
    module(3, array(zeros(6) + 1), out)
    assert (out.numpy() == 1).all()


def test_too_large_for_the_variable() -> None:
    """No memory is touched: a row of no elements can have any number of rows."""
    size = size_var("n")
    a = placeholder((size, 0), name="A")
    b = compute((1,), lambda i: ops.cast("float32", size), name="B")
    module = build(create_prim_func([a, b]), target="llvm")
    with pytest.raises(ArgumentError, match=r"n = 2147483648 does not fit into int32 \(from dimension 0 of arg"):
        module(array(zeros(1 << 31, 0)), array(zeros(1)))


# ------------------------------------------------------------------------------------- layout


def copies(strides: tuple[object, ...], offset: object = None) -> PrimFunc:
    rows, cols, i, j = n.SizeVar("n"), n.SizeVar("m"), n.Var("i"), n.Var("j")
    a = n.decl_buffer((rows, cols), name="a", strides=strides, elem_offset=offset)  # type: ignore[arg-type]
    b = n.decl_buffer((rows, cols), name="b")
    inner = n.For(j, ops.const(0), cols, n.ForKind.SERIAL, n.BufferStore(b, a[i, j], (i, j)))
    handles = n.Var("pa", "handle"), n.Var("pb", "handle")
    return PrimFunc(
        handles, n.For(i, ops.const(0), rows, n.ForKind.SERIAL, inner), None, dict(zip(handles, (a, b))), {}
    )


def test_variable_strides_and_offset_are_those_of_a_compact_array() -> None:
    module = build(copies((n.Var("s0"), n.Var("s1")), n.Var("offset")), target="llvm")
    x = np.random.default_rng(0).random((3, 5), "float32")
    out = array(zeros(3, 5))
    module(array(x), out)
    np.testing.assert_array_equal(out.numpy(), x)


def test_other_layouts_are_refused() -> None:
    with pytest.raises(CodegenError, match="argument 'a' has stride 7, but arrays are passed compact, where it is m"):
        build(copies((ops.const(7), ops.const(1))), target="llvm")
    with pytest.raises(CodegenError, match=r"has offset 4, .* where it is 0"):
        build(copies((), ops.const(4)), target="llvm")


# -------------------------------------------------------------------------------------- text


def test_extents_as_text_and_back() -> None:
    a, b = n.SizeVar("a"), n.SizeVar("min")
    names = names_for([a, b])
    assert names[b] == "min_1"
    known = {"a": 13, "min_1": 4}
    cases = {
        a + b * 2 - 1: 20,
        (a + b) * 2: 34,
        a - (b - 1): 10,
        a * ops.floordiv(b, 3): 13,
        ops.floordiv(a * b, 3): 17,
        ops.floordiv(a, b * 3): 1,
        ops.floormod(a - 20, b): 1,
        ops.minimum(a, b) + ops.maximum(a, -3): 17,
        ops.cast("int64", a) + 1: 14,
    }
    for expr, value in cases.items():
        text = extent_text(expr, names)
        assert parse_extent(text).value(known) == value, text
    assert extent_text(a + b * 2 - 1, names) == "a + min_1*2 - 1"


def test_what_extents_cannot_hold() -> None:
    size = n.SizeVar("n")
    with pytest.raises(CodegenError, match="a Select in the shape"):
        extent_text(n.Select(size > 1, size, ops.const(1)), {})
    with pytest.raises(ArtifactError, match="is no extent"):
        parse_extent("n if n else 1")
