"""Index maps under Apache TVM's names: arrays laid out by a map, axis separators."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from tunefarm.tir import IndexMap


def test_an_array_is_laid_out_by_a_map() -> None:
    given = np.arange(24, dtype="float32").reshape(8, 3)
    forth = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    found = forth.map_ndarray(tvm.nd.array(given))
    assert (found.numpy() == given.reshape(2, 4, 3).transpose(0, 2, 1)).all()
    assert (forth.inverse([8, 3]).map_ndarray(found).numpy() == given).all()


def test_a_map_that_pads_lays_out_no_array() -> None:
    with pytest.raises(IRError, match="have no element"):
        IndexMap.from_func(lambda i: [i // 4, i % 4]).map_ndarray(tvm.nd.array(np.arange(14)))


def test_separators_are_told_apart_from_indices() -> None:
    found, separators = IndexMap.from_func_with_separators(
        lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j // 4, IndexMap.AXIS_SEPARATOR, j % 4], index_dtype="int64"
    )
    assert separators == [1, 2]
    assert found.is_equivalent_to(IndexMap.from_func(lambda i, j: [i, j // 4, j % 4], index_dtype="int64"))
    assert IndexMap.from_func_with_separators(lambda *i: [i[1], i[0]], ndim=2)[1] == []
    with pytest.raises(IRError, match="axis separators"):
        IndexMap.from_func(lambda i: [i // 4, IndexMap.AXIS_SEPARATOR, i % 4])
