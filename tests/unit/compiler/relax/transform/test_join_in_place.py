"""Concatenations whose parts are computed where they belong: which those are, and where the parts lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.ir.base import GlobalVar
from compiler.ir.structural import assert_structural_equal
from compiler.ir.visit import walk
from compiler.relax.analysis.joined_parts import JOINED_PARTS, Join, PlaceInArray, joined_parts, place_parts
from compiler.relax.nodes import Call, Function, TensorStructInfo, Var
from compiler.tir import nodes as n
from tunefarm import relax
from tunefarm.relax import BlockBuilder, op, transform


def two_parts(shapes: Any, axis: int, dtype: str = "float32", after: Any = op.exp) -> Any:
    """relu of each parameter, joined, and what is computed `after`."""
    bb = BlockBuilder()
    params = [Var(f"x{i}", TensorStructInfo(shape, dtype)) for i, shape in enumerate(shapes)]
    with bb.function("main", params):
        with bb.dataflow():
            parts = [bb.emit(op.nn.relu(param)) for param in params]
            whole = bb.emit(op.concat(parts, axis=axis))
            out = bb.emit_output(after(whole))
        bb.emit_func_output(out)
    return bb.get()


def legal(mod: Any) -> Any:
    return transform.LegalizeOps()(mod)


def kernel_of(mod: Any, name: str) -> n.PrimFunc:
    [func] = [func for gvar, func in legal(mod).items() if gvar.name_hint == name]
    assert isinstance(func, n.PrimFunc)
    return func


def marked(mod: Any) -> list[str]:
    made = transform.JoinInPlace()(legal(mod))
    return [gvar.name_hint for gvar, func in made.items() if JOINED_PARTS in func.attrs]


def kernels_called(mod: Any) -> list[str]:
    made = relax.get_pipeline("default_build")(mod)
    calls = [node for func in made.values() if isinstance(func, Function) for node in walk(func)]
    return [node.op.name_hint for node in calls if isinstance(node, Call) and isinstance(node.op, GlobalVar)]


@pytest.mark.parametrize(
    ("shapes", "axis", "sizes"),
    [
        ([(1, 16, 4, 4), (1, 32, 4, 4)], 1, (1024, 2048)),
        ([(16, 4), (16, 4), (8, 4)], 0, (256, 256, 128)),
        ([(1, 1, 7), (1, 1, 9)], -1, (28, 36)),
    ],
)
def test_the_bytes_of_parts(shapes: Any, axis: int, sizes: Any) -> None:
    assert joined_parts(kernel_of(two_parts(shapes, axis), "concat")) == sizes


def test_other_kernels_join_nothing() -> None:
    across = two_parts([(2, 16, 4), (2, 16, 4)], 1)
    assert joined_parts(kernel_of(across, "concat")) is None
    assert joined_parts(kernel_of(across, "relu")) is None


def test_before_and_after() -> None:
    before = legal(two_parts([(16, 4), (16, 4)], 0))
    after = transform.JoinInPlace()(before)
    [name] = [gvar for gvar in after.functions if gvar.name_hint == "concat_joined"]
    assert after[name].attrs[JOINED_PARTS] == (256, 256)
    assert_structural_equal(after[name].without_attr(JOINED_PARTS).without_attr("op_pattern"), before["concat"])
    assert [node for node in walk(after["main"]) if node is name]


@pytest.mark.parametrize(
    "mod",
    [
        two_parts([(5, 3), (5, 3)], 0),  # the second part would begin inside of a line
        two_parts([(2, 16, 4), (2, 16, 4)], 1),  # parts in pieces
        two_parts([(16, 4), (16, 4)], 0, after=lambda whole: whole),  # the caller keeps the result
    ],
)
def test_what_is_copied(mod: Any) -> None:
    assert marked(mod) == []


def test_parts_lie_in_the_whole_and_nothing_is_called() -> None:
    mod = two_parts([(1, 16, 4, 4), (1, 32, 4, 4)], 1)
    assert kernels_called(mod) == ["relu", "relu1", "exp"]
    machine = relax.VirtualMachine(relax.build(mod, "llvm", exec_mode="compiled"), tvm.cpu())
    data = [np.random.default_rng(i).uniform(-1, 1, (1, c, 4, 4)).astype("float32") for i, c in enumerate((16, 32))]
    found = machine["main"](*map(tvm.nd.array, data)).numpy()
    np.testing.assert_allclose(found, np.exp(np.maximum(np.concatenate(data, 1), 0)), rtol=1e-5)


def test_without_a_plan_of_memory_the_kernel_copies() -> None:
    mod = two_parts([(1, 16, 4, 4), (1, 32, 4, 4)], 1)
    with tvm.transform.PassContext(disabled_pass=["StaticPlanBlockMemory"]):
        assert "concat_joined" in kernels_called(mod)
        machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    data = [np.random.default_rng(i).uniform(-1, 1, (1, c, 4, 4)).astype("float32") for i, c in enumerate((16, 32))]
    found = machine["main"](*map(tvm.nd.array, data)).numpy()
    np.testing.assert_allclose(found, np.exp(np.maximum(np.concatenate(data, 1), 0)), rtol=1e-5)


def test_parts_of_parts_and_beginnings_lie_in_the_largest() -> None:
    inner = Join("ab", ("a", "b"), (64, 128))
    outer = Join("abc", ("ab", "c"), (192, 64))
    places, kept = place_parts([inner, outer])
    assert kept == [outer, inner]
    assert places["b"] == PlaceInArray("abc", 64)
    more = Join("abcd", ("a", "b", "c", "d"), (64, 64, 64, 64))
    fewer = Join("bc", ("b", "c"), (64, 64))
    places, kept = place_parts([fewer, more])
    assert kept == [more, fewer]
    assert places["bc"] == PlaceInArray("abcd", 64)


def test_a_part_lies_in_one_place_only() -> None:
    first, second = Join("ab", ("a", "b"), (64, 64)), Join("ca", ("c", "a"), (64, 64))
    assert place_parts([first, second])[1] == [first]
    assert place_parts([Join("aa", ("a", "a"), (64, 64))])[1] == []
    assert place_parts([])[1] == []
