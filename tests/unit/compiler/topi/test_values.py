"""Elementwise operators, creation, statistics, Fourier transforms and padding give what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError
from compiler.te.operation import placeholder, size_var
from tests.kit.compiler.topi import FLOATS, data, verify

SHAPES = [(3, 5), (1, 1), (0, 4), (7, 3)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_of_floats(dtype: str) -> None:
    names = ["abs", "ceil", "floor", "trunc", "square", "negative", "exp", "tanh", "sin", "cos", "sign"]
    cases = [(data(*s, dtype=dtype),) for s in SHAPES]

    def reference(a):
        wide = a.astype("float64")
        return [getattr(np, name)(wide) for name in names] + [np.round(wide)]

    verify(lambda a: [getattr(topi, n)(a) for n in names] + [topi.round(a)], reference, ["nm"], *cases)
    sure = [(np.abs(a) + np.asarray(1, a.dtype),) for (a,) in cases]
    many = ["log", "log2", "log10", "log1p", "sqrt", "arccosh", "arcsinh"]
    verify(
        lambda a: [getattr(topi, n.replace("arc", "a")) (a) for n in many] + [topi.rsqrt(a)],
        lambda a: [getattr(np, n)(a.astype("float64")) for n in many] + [1 / np.sqrt(a.astype("float64"))],
        ["nm"], *sure, constant=False,
    )  # fmt: skip


def test_rounding_goes_to_the_even() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 1e10, -1e-9], "float32")
    verify(topi.round, np.round, ["n"], (x,))
    verify(lambda a: [topi.round(a), topi.floor(a), topi.isnan(a), topi.isfinite(a)],
           lambda a: [a, a, a != a, a == a], ["n"], (np.array([-3, 2], "int32"),))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_binary(dtype: str) -> None:
    pairs = [("nm", "nm"), ("nm", "m"), ("n1", "nm")]
    names = ["floor_divide", "floor_mod", "power"]
    numpys = [np.floor_divide, np.mod, np.power]
    if "float" in dtype:
        names += ["atan2", "fmod", "log_add_exp"]
        numpys += [np.arctan2, np.fmod, np.logaddexp]
    else:
        names += ["trunc_divide", "trunc_mod"]
        numpys += [lambda a, b: np.trunc(a / b).astype(dtype), np.fmod]
    for left, right in pairs:
        sizes = [{"n": 3, "m": 5, "1": 1}, {"n": 1, "m": 1, "1": 1}]
        cases = []
        for known in sizes:
            a, b = data(*(known[c] for c in left), dtype=dtype), data(*(known[c] for c in right), dtype=dtype)
            cases.append((np.abs(a) + a.dtype.type(1) if "float" in dtype else a, np.abs(b) % 3 + b.dtype.type(1)))
        shapes = [[1 if c == "1" else c for c in side] for side in (left, right)]
        verify(lambda a, b: [getattr(topi, n)(a, b) for n in names], lambda a, b: [f(a, b) for f in numpys], shapes,
               *cases, tolerance=1e-4, constant=False)  # fmt: skip


def test_floor_of_floats_as_numpy_does() -> None:
    a = np.array([7, -7, 7, -7, 0.7, -1e-9, 6], "float64")
    b = np.array([2, 2, -2, -2, 0.1, 3, 3], "float64")
    verify(lambda x, y: [topi.floor_divide(x, y), topi.floor_mod(x, y)], lambda x, y: [x // y, x % y], ["n", "n"],
           (a, b))  # fmt: skip


def test_clip_and_bits() -> None:
    verify(lambda a: topi.clip(a, -1000, 3.7), lambda a: np.clip(a, -128, 3), ["n"], (data(30, dtype="int8"),))
    verify(lambda a: topi.clip(a, -0.5, 0.5), lambda a: np.clip(a, -0.5, 0.5), ["n"], (data(30),))
    verify(lambda a: topi.reinterpret(a, "int32"), lambda a: a.view("int32"), ["n"], (data(30),))
    verify(lambda a, b, c: topi.elemwise_sum([a, b, c]), lambda a, b, c: a + b + c, ["nm", "m", "nm"],
           (data(3, 4), data(4), data(3, 4)))  # fmt: skip


# --------------------------------------------------------------------------------- creation


def test_constants_and_ranges() -> None:
    def made(x):
        n = x.shape[0]
        return [
            topi.arange(n, dtype="int64"), topi.arange(1, n, 2, "int32"), topi.arange(n, 0, -3, "int64"),
            topi.eye(n, n + 2, 1), topi.eye(n), topi.hann_window(n), topi.hann_window(n, False, "float64"),
            topi.hamming_window(n), topi.blackman_window(n, False), topi.shape(x), topi.ndarray_size(x),
        ]  # fmt: skip

    def reference(a):
        n = len(a)
        return [
            np.arange(n), np.arange(1, n, 2), np.arange(n, 0, -3), np.eye(n, n + 2, 1), np.eye(n),
            np.hanning(n + 1)[:-1] if n > 1 else np.ones(n), np.hanning(n),
            np.hamming(n + 1)[:-1] if n > 1 else np.ones(n),
            np.blackman(n), [n], n,
        ]  # fmt: skip

    verify(made, reference, ["n"], (data(9),), (data(1),), (data(0),), (data(4),))
    for num, end in [(5, True), (5, False), (1, True), (0, True)]:
        verify(lambda _, n=num, e=end: topi.linspace(-1, 2, n, e), lambda _, n=num, e=end: np.linspace(-1, 2, n, e),
               ["n"], (data(1),))  # fmt: skip
    verify(lambda _: topi.arange(0.5, 3, 0.25, "float32"), lambda _: np.arange(0.5, 3, 0.25), ["n"], (data(1),))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing: str) -> None:
    verify(lambda a, b, c: topi.meshgrid([a, b, c], indexing), lambda a, b, c: np.meshgrid(a, b, c, indexing=indexing),
           ["n", "m", "k"], (data(3), data(2), data(1)), (data(2), data(0), data(4)))  # fmt: skip


# ------------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), ((0, 2), True), (-1, False)])
def test_statistics(dtype: str, axis, keepdims: bool) -> None:
    cases = [(data(*s, dtype=dtype),) for s in [(3, 5, 2), (2, 1, 7), (1, 4, 1)]]

    def reference(a):
        wide = a.astype("float64")
        how = {"axis": axis, "keepdims": keepdims}
        top = wide.max(**how)
        total = np.log(np.exp(wide - wide.max(axis=axis, keepdims=True)).sum(**how)) + top
        return [wide.mean(**how), wide.var(**how), wide.std(**how), total]

    verify(
        lambda a: [f(a, axis, keepdims) for f in (topi.mean, topi.variance, topi.std, topi.logsumexp)],
        reference, ["abc"], *cases,
    )  # fmt: skip


def test_statistics_of_samples_and_integers() -> None:
    verify(lambda a: topi.variance(a, 0, correction=1), lambda a: a.var(0, ddof=1), ["nm"], (data(5, 3),))
    verify(lambda a: topi.mean(a, 1), lambda a: np.trunc(a.sum(1) / a.shape[1]), ["nm"], (data(5, 3, dtype="int32"),))


# ---------------------------------------------------------------------------------- products


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_matmul_broadcasts(dtype: str) -> None:
    for left, right in [
        ("bnk", "km"),
        ("nk", "bkm"),
        ("abnk", "bkm"),
        ("k", "bkm"),
        ("bnk", "k"),
        ("k", "k"),
        ("1nk", "bkm"),
    ]:
        names = [[1 if c == "1" else c for c in side] for side in (left, right)]
        cases = []
        for sizes in (
            {"a": 2, "b": 3, "n": 4, "k": 5, "m": 2},
            {"a": 1, "b": 1, "n": 1, "k": 1, "m": 3},
            {"a": 1, "b": 2, "n": 0, "k": 3, "m": 1},
        ):
            cases.append([data(*(sizes.get(c, 1) for c in side), dtype=dtype) for side in (left, right)])
        verify(topi.matmul, np.matmul, names, *cases, tolerance=1e-4, constant=False)
    verify(lambda a, b: topi.batch_matmul(a, b), lambda a, b: a @ b.transpose(0, 2, 1), [(1, "n", "k"), "bmk"],
           (data(1, 2, 3, dtype=dtype), data(4, 5, 3, dtype=dtype)), tolerance=1e-4)  # fmt: skip


def test_tensordot() -> None:
    a, b = data(2, 3, 4), data(4, 3, 5)
    verify(lambda x, y: topi.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1), ["abc", "cbe"], (a, b),
           tolerance=1e-4)  # fmt: skip
    verify(lambda x, y: topi.tensordot(x, y, ([1, 2], [1, 0])), lambda x, y: np.tensordot(x, y, ([1, 2], [1, 0])),
           ["abc", "cbe"], (a, b), tolerance=1e-4)  # fmt: skip
    verify(lambda x, y: topi.tensordot(x, y, 0), lambda x, y: np.tensordot(x, y, 0), ["n", "m"], (data(2), data(3)))


@pytest.mark.parametrize(
    "text",
    ["...ij,...jk->...ik", "...ij,jk", "b...,b...->b...", "iij->j", "ij,ji", "i...->...", "ab,bc,cd->ad", "...,..."],
)
def test_einsum(text: str) -> None:
    sizes = {"i": 3, "j": 4, "k": 2, "a": 2, "b": 3, "c": 4, "d": 5}
    terms = text.partition("->")[0].split(",")
    spread = [(2, 5), (5,)]
    arrays = []
    for number, term in enumerate(terms):
        before, dots, behind = term.partition("...")
        middle = spread[min(number, 1) if "b..." not in text else 0] if dots else ()
        arrays.append(data(*(sizes[c] for c in before), *middle, *(sizes[c] for c in behind)))
    verify(lambda *t: topi.einsum(text, *t), lambda *t: np.einsum(text, *t), [a.shape for a in arrays], arrays,
           tolerance=1e-4)  # fmt: skip


# --------------------------------------------------------------------------------- transforms


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dft(dtype: str) -> None:
    cases = [(data(*s, dtype=dtype), data(*s, dtype=dtype)) for s in [(2, 8), (3, 7), (1, 1), (0, 4)]]

    def reference(inverse):
        def parts(a, b):
            f = np.fft.ifft if inverse else np.fft.fft
            out = f(a.astype("float64") + 1j * b, axis=-1)
            return out.real, out.imag

        return parts

    for inverse in (False, True):
        verify(lambda a, b, i=inverse: topi.dft(a, b, i), reference(inverse), ["nm", "nm"], *cases, tolerance=1e-5)


@pytest.mark.parametrize("onesided", [False, True])
def test_stft(onesided: bool) -> None:
    x, w = data(2, 20), np.abs(data(4)) + np.float32(0.1)

    def reference(a, window):
        whole = np.zeros(6)
        whole[1:5] = window
        frames = np.stack([a[:, s : s + 6] for s in range(0, 15, 3)], 1) * whole
        out = (np.fft.rfft if onesided else np.fft.fft)(frames, axis=-1).transpose(0, 2, 1) / np.sqrt(6)
        return np.stack([out.real, out.imag], -1)

    shape = (2, 4 if onesided else 6, 5, 2)
    verify(lambda a, v: topi.stft(a, 6, 3, 4, v, True, onesided, shape), reference, [(2, 20), (4,)], (x, w),
           tolerance=1e-5)  # fmt: skip


# ------------------------------------------------------------------------------------ padding


@pytest.mark.parametrize(
    ("name", "mode"),
    [("mirror_pad", "symmetric"), ("reflect_pad", "reflect"), ("replicate_pad", "edge"), ("circular_pad", "wrap")],
)
def test_padding_with_own_elements(name: str, mode: str) -> None:
    cases = [(data(2, 3, 4),), (data(1, 4, 3),), (data(0, 5, 5),)]
    verify(
        lambda a: getattr(topi.nn, name)(a, [0, 2, 1], [0, 0, 2]),
        lambda a: np.pad(a, [(0, 0), (2, 0), (1, 2)], mode=mode),
        ["abc"], *cases,
    )  # fmt: skip


def test_padding_with_a_value() -> None:
    verify(lambda a: topi.nn.pad(a, [1, 0], [0, 2], -1), lambda a: np.pad(a, [(1, 0), (0, 2)], constant_values=-1),
           ["nm"], (data(2, 3),), (data(0, 1),), (data(1, 0),))  # fmt: skip


def test_shapes_of_symbolic_sizes() -> None:
    n = size_var("n", "int64")
    x = placeholder((n, 4), name="X")
    assert [str(d) for d in topi.reshape(x, (-1, 2)).shape] == ["n * T.int64(2)", "2"]
    assert [str(d) for d in topi.nn.flatten(placeholder((n, 2, 3))).shape] == ["n", "6"]


@pytest.mark.parametrize("dtype", ["bfloat16", "int64", "bool"])
def test_reshapes_slices_and_indices(dtype: str) -> None:
    cases = [(data(*s, dtype=dtype),) for s in [(3, 4), (1, 4), (0, 4), (5, 4)]]
    verify(
        lambda a: [
            topi.reshape(a, (2, -1)), topi.reshape(a, (-1,)), topi.strided_slice(a, [0, -1], [2, -4], [1, -2]),
            topi.strided_slice(a, [1], [10**10]), topi.strided_slice(a, [-1], [-(10**10)], [-1]),
            topi.tile(a, (2, 1)), topi.repeat(a, 2, 0), topi.flip(a, 0),
            *topi.split(a, 2, 1), *topi.split(a, [1, 3], 1), topi.concatenate([a, a], 0),
        ],
        lambda a: [
            a.reshape(2, -1), a.ravel(), a[0:2, -1:-4:-2], a[1:], a[::-1],
            np.tile(a, (2, 1)), np.repeat(a, 2, 0), a[::-1],
            *np.split(a, 2, 1), *np.split(a, [1, 3], 1), np.concatenate([a, a]),
        ],
        [("n", 4)], *cases,
    )  # fmt: skip


def test_indexing() -> None:
    a, where = data(4, 5, 3), np.array([[0, -1, 2], [3, 1, 1]])
    verify(lambda x, i: topi.take(x, i, 1, mode="wrap"), lambda x, i: np.take(x, i, 1, mode="wrap"), ["abc", "nm"],
           (a, where))  # fmt: skip
    verify(lambda x, i: topi.take(x, i, 0, mode="nan"),
           lambda x, i: np.where(((i >= 0) & (i < 4))[..., None, None], x[i % 4], np.nan), ["abc", "nm"],
           (a, where + 2))  # fmt: skip
    verify(lambda x, i: topi.take(x, i, 1, 1), lambda x, i: np.stack([r[j] for r, j in zip(x, i)]), ["abc", "am"],
           (a, np.array([[0, 1], [4, 4], [2, 0], [3, 3]])))  # fmt: skip
    verify(lambda x, i: topi.gather_nd(x, i), lambda x, i: x[i[0], i[1]], ["abc", (2, "m")], (a, where))
    verify(lambda x, i: topi.gather_nd(x, i, 1), lambda x, i: np.stack([x[n][i[0, n], i[1, n]] for n in range(4)]),
           ["abc", (2, "a")], (a, np.array([[0, 1, 2, -1], [2, 1, 0, 0]])))  # fmt: skip
    verify(lambda x, i, j: topi.index_tensor(x, [i, j]), lambda x, i, j: x[i, j], ["abc", ("n", 1), "m"],
           (a, np.array([[0], [-1]]), np.array([1, 2, 4])))  # fmt: skip
    verify(lambda i: topi.one_hot(i, 2.0, -1.0, 4, 1, "float32"),
           lambda i: np.where(i[:, None] == np.arange(4)[None, :, None], 2.0, -1.0), ["nm"], (where,))  # fmt: skip
    verify(lambda i: topi.unravel_index(i, (3, 4, 5)), lambda i: np.stack(np.unravel_index(i, (3, 4, 5))), ["n"],
           (np.array([0, 59, 17]),))  # fmt: skip


def test_dynamic_slices() -> None:
    a = data(6, 5)
    bounds = [np.array(v) for v in ([4, -4], [0, 5], [-2, 1])]
    verify(lambda x, b, e, s: topi.dynamic_strided_slice(x, b, e, s, (2, 4)), lambda x, b, e, s: x[4:0:-2, -4:5],
           ["nm", (2,), (2,), (2,)], (a, *bounds))  # fmt: skip

    def written(x, v, b, e, s):
        out = x.copy()
        out[4:0:-2, -4:5] = v
        return out

    verify(lambda x, v, b, e, s: topi.strided_set(x, v, b, e, s), written, ["nm", "kj", (2,), (2,), (2,)],
           (a, data(2, 4), *bounds))  # fmt: skip

    def scattered(x, v):
        out = x.copy()
        out[:, 1:5:2] = v
        return out

    verify(lambda x, v: topi.slice_scatter(x, v, 1, 5, 2, 1), scattered, ["nm", "nk"], (a, data(6, 2)))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: topi.elemwise_sum([]), "elemwise_sum: needs at least one tensor"),
        (lambda x: topi.reshape(x, (4, -1)), "cannot reshape (2, 3) to (4, -1)"),
        (lambda x: topi.linspace(0, 1, -1), "linspace: num -1"),
        (lambda x: topi.meshgrid([x]), "meshgrid: 'X' (2, 3) must have 0 or 1 dimensions"),
        (lambda x: topi.variance(topi.cast(x, "int32")), "variance: 'T_cast' is int32, not a float"),
        (lambda x: topi.matmul(x, x), "matmul: the K of 'X' (2, 3) and 'X' (2, 3) differ: 3 and 2"),
        (lambda x: topi.tensordot(x, x, 3), "tensordot: axes 3"),
        (lambda x: topi.einsum("ij->k", x), "einsum 'ij->k' does not fit"),
        (lambda x: topi.dft(x, placeholder((2, 4))), "dft: parts must have one shape"),
        (lambda x: topi.nn.mirror_pad(x, [0, 4]), "MirrorPadInput: padding of 4 for a dimension of 3"),
        (lambda x: topi.gather_nd(x, placeholder((3, 1), "int32")), "gather_nd: 'X' float32 (2, 3)"),
        (lambda x: topi.one_hot(x, 1, 0, 3, 0, "float32"), "one_hot: 'X' is float32, not an integer"),
        (lambda x: topi.slice_scatter(x, x, 0, 1, 0, 0), "slice_scatter: step 0"),
        (lambda x: topi.hann_window(3, True, "int32"), "hann_window: dtype int32 is no float"),
        (lambda x: topi.roll(x, (1,), (0, 1)), "roll: 1 shifts"),
    ],
)
def test_mistakes(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make(placeholder((2, 3), name="X"))
    assert text in error.value.message
    assert __file__ in error.value.message
