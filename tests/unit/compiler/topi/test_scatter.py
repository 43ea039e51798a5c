"""Scatters, scans, unique and masks give what plain loops and numpy give."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError
from compiler.te.operation import placeholder
from compiler.topi.scatter import REDUCTIONS
from tests.kit.compiler.topi import data, verify

RNG = np.random.default_rng(1)


def combine(out: np.ndarray, count: np.ndarray, place: tuple, value, reduction: str) -> None:
    """Write one update; the mean's sums are divided at the end."""
    match reduction:
        case "add" | "mean":
            out[place] += value
        case "mul":
            out[place] *= value
        case "max":
            out[place] = np.maximum(out[place], value)
        case "min":
            out[place] = np.minimum(out[place], value)
        case _:
            out[place] = value
    count[place] += 1


def finished(out: np.ndarray, count: np.ndarray, reduction: str) -> np.ndarray:
    if reduction != "mean":
        return out
    return out / count if out.dtype.kind == "f" else out // count


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_scatter_elements(reduction: str, dtype: str) -> None:
    def reference(a, where, new):
        out, count = a.copy(), np.ones(a.shape, int)
        for point in np.ndindex(where.shape):
            place = (point[0], int(where[point]), *point[2:])
            combine(out, count, place, new[point], reduction)
        return finished(out, count, reduction)

    cases = [
        (data(*s, dtype=dtype), RNG.integers(-s[1], s[1], i).astype("int64"), data(*i, dtype=dtype))
        for s, i in [((3, 5), (3, 7)), ((1, 1), (1, 3)), ((4, 2), (2, 2)), ((3, 4), (0, 3))]
    ]
    verify(lambda a, i, u: topi.scatter_elements(a, i, u, 1, reduction), reference, ["nm", "kj", "kj"], *cases,
           tolerance=1e-4)  # fmt: skip


@pytest.mark.parametrize("mode", REDUCTIONS)
def test_scatter_nd(mode: str) -> None:
    def reference(a, where, new):
        out, count = a.copy(), np.ones(a.shape, int)
        for point in np.ndindex(where.shape[1:]):
            place = tuple(int(w) for w in where[(slice(None), *point)])
            combine(out, count, place, new[point], mode)
        return finished(out, count, mode)

    sizes = [(3, 5, 2, 6), (1, 1, 1, 4), (4, 2, 3, 0)]
    points = [np.stack([RNG.integers(-n, n, k), RNG.integers(0, m, k)]) for n, m, _, k in sizes]
    cases = [(data(*s[:3]), p, data(s[3], s[2])) for s, p in zip(sizes, points)]
    verify(lambda a, i, u: topi.scatter_nd(a, i, u, mode), reference, ["nmj", (2, "k"), "kj"], *cases, tolerance=1e-4)


def test_what_is_outside_is_left_out() -> None:
    a, u = data(3), data(4)
    where = np.array([0, 3, -4, -1])

    def reference(a, i, u):
        return np.array([u[0], a[1], u[3]])

    verify(lambda a, i, u: topi.scatter_elements(a, i, u), reference, ["n", "k", "k"], (a, where, u))
    verify(lambda a, i, u: topi.scatter_nd(a, i, u), lambda a, i, u: reference(a, i, u), ["n", (1, "k"), "k"],
           (a, where[None], u))  # fmt: skip


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate: bool) -> None:
    def reference(a, v, i, j):
        out = a.copy()
        if accumulate:
            np.add.at(out, (i, j), v)
        else:
            out[i, j] = v
        return out

    rows, columns = np.array([[0], [-1]]), np.array([1, 3, 2])
    verify(
        lambda a, v, i, j: topi.index_put(a, [i, j], v, accumulate), reference, ["nmk", (2, 1, "k"), (2, 1), (3,)],
        (data(4, 5, 3), data(2, 1, 3), rows, columns),
    )  # fmt: skip
    if accumulate:
        again = np.array([1, 1, 0, 1])
        verify(lambda a, v, i: topi.index_put(a, [i], v, True),
               lambda a, v, i: a + np.bincount(i, v, len(a)), ["n", "k", "k"], (data(3), data(4), again))  # fmt: skip


def test_sparse_to_dense() -> None:
    where, values = np.array([[0, 1], [2, 0]]), data(2)

    def reference(i, v):
        out = np.full((3, 4), 7.0)
        out[i[:, 0], i[:, 1]] = v
        return out

    verify(lambda i, v: topi.sparse_to_dense(i, (3, 4), v, 7.0), reference, [("k", 2), "k"], (where, values))


# ---------------------------------------------------------------------------------------- scans


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)])
def test_running_sums_and_products(axis: int | None, exclusive: bool, reverse: bool) -> None:
    def running(a: np.ndarray, total, unit: int) -> np.ndarray:
        a, along = (a.ravel(), 0) if axis is None else (a, axis)
        a = np.flip(a, along) if reverse else a
        out = total(a, along)
        if exclusive:
            part = [slice(None)] * a.ndim
            part[along] = slice(0, 1)
            one = np.full_like(a[tuple(part)], unit)
            part[along] = slice(0, -1)
            out = np.concatenate([one, out[tuple(part)]], along)[: out.shape[0]]
            out = out if a.size else a
        return np.flip(out, along) if reverse else out

    cases = [(data(*s, dtype="int64", low=1, high=4),) for s in [(3, 5), (1, 1), (0, 3), (7, 2)]]
    verify(
        lambda a: [topi.cumsum(a, axis, None, exclusive, reverse), topi.cumprod(a, axis, None, exclusive, reverse)],
        lambda a: (running(a, np.cumsum, 0), running(a, np.cumprod, 1)),
        ["nm"],
        *cases,
    )


@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, True)])
def test_running_sums_across_memory(exclusive: bool, reverse: bool) -> None:
    """Parts of the last dimension, of which the last is not whole, side by side."""

    def running(a: np.ndarray) -> np.ndarray:
        a = np.flip(a, 1) if reverse else a
        out = np.cumsum(a, 1)
        out = out - a if exclusive else out
        return np.flip(out, 1) if reverse else out

    cases = [(data(*s, dtype="int64"),) for s in [(2, 3, 300), (1, 1, 8), (2, 0, 257), (1, 4, 512), (0, 2, 9)]]
    verify(lambda a: topi.cumsum(a, 1, None, exclusive, reverse), running, ["nmk"], *cases)


def test_a_running_sum_in_another_dtype() -> None:
    verify(lambda a: topi.cumsum(a, 0, "float64"), lambda a: np.cumsum(a, 0, "float64"), ["n"], (data(9),))
    verify(lambda a: topi.cumsum(a, 0), lambda a: np.cumsum(a, 0), ["n"], (data(9, dtype="bool"),))


# ------------------------------------------------------------------------- unique and nonzero


def padded(values: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out


@pytest.mark.parametrize("is_sorted", [True, False])
def test_unique(is_sorted: bool) -> None:
    def reference(a):
        values, first, inverse, counts = np.unique(a, True, True, True)
        if not is_sorted:
            order = np.argsort(first)
            values, first, counts = values[order], first[order], counts[order]
            inverse = np.argsort(order)[inverse]
        n = len(a)
        return padded(values, n), padded(first, n), inverse, [len(values)], padded(counts, n)

    cases = [(data(s, dtype="int32", low=-2, high=3),) for s in (9, 1, 0, 20)]
    verify(lambda a: topi.unique(a, is_sorted, True), reference, ["n"], *cases)


def test_nonzero_and_argwhere() -> None:
    def reference(a):
        found = np.argwhere(a)
        return padded(found, a.size).T, [len(found)], padded(found, a.size), [len(found)]

    cases = [(data(*s, dtype="bool"),) for s in [(3, 4), (1, 1), (0, 2)]]
    verify(lambda a: [*topi.nonzero(a), *topi.argwhere(a)], reference, ["nm"], *cases)


# ---------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize("k", [-2, 0, 3])
def test_triangles(k: int) -> None:
    cases = [(data(*s),) for s in [(2, 3, 5), (1, 5, 2), (2, 1, 1), (1, 0, 4)]]
    verify(lambda a: [topi.tril(a, k), topi.triu(a, k)], lambda a: (np.tril(a, k), np.triu(a, k)), ["bnm"], *cases)


def test_sequences() -> None:
    lengths = np.array([0, 2, 5], "int32")

    def masked(a, n):
        return np.where(np.arange(a.shape[0])[:, None, None] < n[None, :, None], a, -1)

    verify(lambda a, n: topi.sequence_mask(a, n, -1), masked, ["tnk", "n"], (data(5, 3, 2), lengths))

    def turned(a, n):
        return np.stack([np.concatenate([row[:k][::-1], row[k:]]) for row, k in zip(a, n)])

    verify(lambda a, n: topi.reverse_sequence(a, n), turned, ["ntk", "n"], (data(3, 5, 2), lengths))


def test_diagonals_windows_and_rolling() -> None:
    def diagonal(a, d):
        out = a.copy()
        for n in range(min(a.shape[1], a.shape[2] - 1)):
            out[:, n, n + 1] = d[:, n]
        return out

    verify(lambda a, d: topi.matrix_set_diag(a, d, 1), diagonal, ["bnm", "bk"], (data(2, 3, 4), data(2, 3)))

    def three(a, d):
        out = a.copy()  # RIGHT_LEFT: the upper diagonal's row begins with a gap, the lower one's ends with one
        for n in range(3):
            out[n, n] = d[1, n]
        for n in range(2):
            out[n, n + 1], out[n + 1, n] = d[0, n + 1], d[2, n]
        return out

    verify(lambda a, d: topi.matrix_set_diag(a, d, (-1, 1)), three, ["nn", (3, "n")], (data(3, 3), data(3, 3)))
    verify(
        lambda a: topi.sliding_window(a, 1, [2, 3], [1, 2]),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 3), (1, 2))[:, :, ::2],
        ["bnm"], (data(2, 4, 8),), (data(1, 2, 3),),
    )  # fmt: skip
    for shift, axis in [(2, 0), (-3, 1), ((1, 1, 5), (0, 1, 0)), (4, None)]:
        verify(lambda a, s=shift, d=axis: topi.roll(a, s, d), lambda a, s=shift, d=axis: np.roll(a, s, d), ["nm"],
               (data(3, 4),), (data(1, 5),), (data(0, 3),))  # fmt: skip


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x, i: topi.scatter_elements(x, i, x, 0, "xor"), "scatter_elements: reduction 'xor' is none of"),
        (lambda x, i: topi.scatter_elements(x, x, x), "scatter_elements: 'X' is float32, not an integer"),
        (lambda x, i: topi.scatter_elements(x, i, i), "scatter_elements: 'I' is int32, not float32"),
        (lambda x, i: topi.scatter_elements(x, i, placeholder((2, 4))), "scatter_elements: shapes do not fit"),
        (lambda x, i: topi.scatter_nd(x, i, placeholder((9,))), "scatter_nd: shapes do not fit: 'X' float32 (2, 3)"),
        (lambda x, i: topi.index_put(x, [i, i, i], x), "index_put: 3 index tensors for 'X'"),
        (lambda x, i: topi.cumsum(x, 2), "cumsum over axis 2"),
        (lambda x, i: topi.unique(x), "unique: 'X' (2, 3) must have 1 dimensions"),
        (lambda x, i: topi.trilu(placeholder((3,)), 0, True), "trilu: 'placeholder' float32 (3,) needs at least 2"),
        (lambda x, i: topi.roll(x, (1, 2), 0), "roll: 2 shifts for 1 axes"),
        (lambda x, i: topi.sliding_window(x, 0, [3, 1], [1, 1]), "sliding_window: windows [3, 1]"),
    ],
)
def test_mistakes(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make(placeholder((2, 3), name="X"), placeholder((2, 3), "int32", name="I"))
    assert text in error.value.message
    assert __file__ in error.value.message
