"""Sorting operators give what numpy gives, ties and NaN included."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError
from compiler.te.operation import placeholder
from tests.kit.compiler.topi import DTYPES, data, distinct, verify

SHAPES = [(3, 7, 2), (0, 4, 1), (2, 0, 3), (1, 1, 1), (2, 33, 3)]


def descending(a: np.ndarray, axis: int) -> np.ndarray:
    """A stable argsort, largest first."""
    flipped = np.argsort(np.flip(a, axis), axis, kind="stable")
    return a.shape[axis] - 1 - np.flip(flipped, axis)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_and_argsort(dtype: str) -> None:
    cases = [(data(*s, dtype=dtype, low=-3, high=3),) for s in SHAPES]
    verify(
        lambda x: [topi.sort(x, 1), topi.argsort(x, axis=1, dtype="int32")],
        lambda a: (np.sort(a, 1), np.argsort(a, 1, kind="stable")),
        ["abc"],
        *cases,
    )
    verify(
        lambda x: [topi.sort(x, -1, False), topi.argsort(x, None, -1, False, "int64")],
        lambda a: (np.take_along_axis(a, descending(a, 2), 2), descending(a, 2)),
        ["abc"],
        *cases,
    )


def test_nan_is_the_largest() -> None:
    x = np.array([[np.nan, 2, np.inf, np.nan, -1], [0, np.nan, -np.inf, 1, 1]], "float32")
    verify(topi.sort, np.sort, ["nm"], (x,))


def test_argsort_of_valid_counts() -> None:
    x, count = data(4, 9), np.array([0, 3, 9, 20], "int32")

    def reference(a: np.ndarray, c: np.ndarray) -> np.ndarray:
        order = np.tile(np.arange(a.shape[1]), (a.shape[0], 1))
        for row, valid in enumerate(np.minimum(c, a.shape[1])):
            order[row, :valid] = np.argsort(a[row, :valid], kind="stable")
        return order

    verify(lambda a, c: topi.argsort(a, c, 1, True, "int64"), reference, ["nm", "n"], (x, count))


@pytest.mark.parametrize(("k", "axis"), [(1, -1), (3, 0), (5, 1), (0, 1)])
@pytest.mark.parametrize("ascending", [False, True])
def test_topk(k: int, axis: int, ascending: bool) -> None:
    def reference(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(a, axis, kind="stable") if ascending else descending(a, axis)
        order = np.take(order, range(k if k else a.shape[axis]), axis)
        return np.take_along_axis(a, order, axis), order

    cases = [(data(*s, dtype="int32", low=-5, high=5),) for s in [(7, 6), (25, 31), (5, 5)]]
    verify(lambda x: topi.topk(x, k, axis, "both", ascending), reference, ["nm"], *cases)


def test_topk_of_one_kind() -> None:
    x = distinct(4, 50)
    verify(lambda a: topi.topk(a, 3, 1, "values"), lambda a: -np.sort(-a, 1)[:, :3], ["nm"], (x,))
    verify(lambda a: topi.topk(a, 3, 1, "indices", dtype="int32"), lambda a: np.argsort(-a, 1)[:, :3], ["nm"], (x,))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_searchsorted_and_bucketize(right: bool, dtype: str) -> None:
    side = "right" if right else "left"
    cases = [
        (np.sort(data(s, dtype=dtype)), data(*v, dtype=dtype)) for s, v in [(5, (3, 4)), (0, (2, 2)), (1, (0, 3))]
    ]
    verify(
        lambda s, v: [topi.searchsorted(s, v, right), topi.bucketize(v, s, True, right)],
        lambda s, v: (np.searchsorted(s, v, side),) * 2,
        ["s", "nm"],
        *cases,
    )
    many = np.sort(data(3, 9, dtype=dtype), 1), data(3, 4, dtype=dtype)
    verify(
        lambda s, v: topi.searchsorted(s, v, right, "int32"),
        lambda s, v: np.stack([np.searchsorted(*row, side) for row in zip(s, v)]),
        ["ns", "nm"],
        many,
    )


def test_median() -> None:
    def along(a: np.ndarray, keepdims: bool) -> tuple[np.ndarray, np.ndarray]:
        order = np.take(np.argsort(a, 1, kind="stable"), [(a.shape[1] - 1) // 2], 1)
        both = np.take_along_axis(a, order, 1), order
        return both if keepdims else tuple(p[:, 0] for p in both)

    cases = [(data(3, 5, 2),), (data(2, 4, 1),), (data(0, 1, 3),)]
    for keep in (False, True):
        verify(lambda x, keep=keep: topi.median(x, 1, keep), lambda a, keep=keep: along(a, keep), ["abc"], *cases)
    verify(topi.median, lambda a: np.sort(a.ravel())[(a.size - 1) // 2], ["nm"], (data(3, 5),))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: topi.sort(x, 2), "sort over axis 2 of a tensor of 2 dimensions"),
        (lambda x: topi.topk(x, 4), "topk: k 4 is larger than dimension 1 of 'X' (2, 3)"),
        (lambda x: topi.topk(x, 1, ret_type="all"), "topk: ret_type 'all' is none of"),
        (lambda x: topi.searchsorted(x, placeholder((5, 3))), "searchsorted: sequence (2, 3) and values (5, 3)"),
        (lambda x: topi.argsort(x, placeholder((2,), "float32", "C")), "argsort: 'C' is float32, not an integer"),
        (lambda x: topi.bucketize(x, x), "bucketize: 'X' (2, 3) must have 1 dimensions"),
    ],
)
def test_mistakes(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make(placeholder((2, 3), name="X"))
    assert text in error.value.message
    assert __file__ in error.value.message
