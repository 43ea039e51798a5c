"""Divisions by symbolic sizes have names, so that tiles of fused loops are whole vectors inside."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.ir.visit import walk
from compiler.lower.loops.name_divisions import name_divisions
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, size_var
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind
from tunefarm.script import tir as T


@T.prim_func
def fused(a: T.handle) -> None:
    m = T.int32(is_size_var=True)
    A = T.match_buffer(a, (m * 7,), "float32")
    for p in T.parallel(m * 7):
        A[p // m * m + p % m] = T.float32(p // m) + A[p // 3]


def test_each_division_is_made_once() -> None:
    loop = name_divisions(fused).body
    assert isinstance(loop, n.For)
    values, body = [], loop.body
    while isinstance(body, n.LetStmt):
        assert isinstance(body.var, n.SizeVar)
        values.append(str(body.value).replace("T.", ""))
        body = body.body
    assert sorted(values) == ["p % max(m, 1)", "p // max(m, 1)"]
    assert [str(node) for node in walk(body) if isinstance(node, n.FloorDiv | n.FloorMod)] == ["p // 3"]


def tiled() -> n.PrimFunc:
    """Rows of a sum with lanes, whose outer loops are one parallel loop."""
    rows, columns = size_var("rows", "int32"), size_var("columns", "int32")
    a = placeholder((rows, columns), name="A")
    schedule = Schedule(create_prim_func([a, compute((rows, columns), lambda i, j: a[i, j] + a[i, 0], name="B")]))
    i, j = schedule.get_loops(schedule.get_block("B"))
    outer, inner = schedule.split(j, [None, 8])
    schedule.parallel(schedule.fuse(i, outer))
    schedule.vectorize(inner)
    return schedule.func


def test_tiles_inside_have_no_masks() -> None:
    """And the tile at the edge of each row has."""
    stores = [node for node in walk(lower_func(tiled())) if isinstance(node, n.BufferStore)]
    assert [store.predicate is None for store in stores] == [True, False]
    assert all(isinstance(store.indices[0], n.Ramp) for store in stores)
    assert any(isinstance(node, n.For) and node.kind is ForKind.PARALLEL for node in walk(lower_func(tiled())))


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return compile_artifact(tiled(), Target.host(), keep=())


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1), (2, 8), (5, 7), (3, 17), (4, 64)])
def test_right_at_any_size(artifact: Artifact, shape: tuple[int, int]) -> None:
    given, out = np.random.default_rng(0).random(shape, "float32"), empty(shape)
    load_artifact(artifact)["default_function"](array(given), out)
    np.testing.assert_array_equal(out.numpy(), given + given[:, :1])
