"""Pooling, norms, attention, recurrent layers and losses give what plain numpy gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError
from compiler.te.operation import placeholder
from tests.kit.compiler.topi import data, verify, windows

nn = topi.nn
Array = np.ndarray


# ------------------------------------------------------------------------------------ pooling


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(("ceil_mode", "include"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling(kind: str, ceil_mode: bool, include: bool, rank: int) -> None:
    kernel, strides, padding = [3, 2, 2][:rank], [2, 3, 1][:rank], [1, 0, 1][:rank] * 2

    def reference(a):
        more = [p + (s - 1 if ceil_mode else 0) for p, s in zip(padding[rank:], strides)]
        seen = windows(a, kernel, strides, [1] * rank, [*padding[:rank], *more], np.nan)
        taps = tuple(range(-rank, 0))
        if kind == "max":
            return np.nanmax(seen, taps)
        ones = windows(np.zeros_like(a), kernel, strides, [1] * rank, [*padding[:rank], *more], np.nan)
        if include:
            inner = np.pad(np.zeros_like(a), [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:])])
            ones = windows(
                inner, kernel, strides, [1] * rank, [0] * rank + [m - p for m, p in zip(more, padding)], np.nan
            )
        return np.nansum(seen, taps) / np.maximum((~np.isnan(ones)).sum(taps), 1)

    cases = [(data(2, 3, *[7, 5, 4][:rank]),), (data(1, 1, *[3, 2, 2][:rank]),), (data(0, 2, *[4, 6, 3][:rank]),)]
    verify(
        lambda x: getattr(nn, f"pool{rank}d")(
            x, kernel, strides, 1, padding, kind, ceil_mode, "NC" + "DHW"[-rank:], include
        ),
        reference,
        [("n", "c", *"xyz"[:rank])],
        *cases,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pooling(kind: str) -> None:
    def reference(a):
        out = np.zeros((*a.shape[:2], 3, 2))
        for i in range(3):
            for j in range(2):
                part = a[
                    :,
                    :,
                    i * a.shape[2] // 3 : -(-(i + 1) * a.shape[2] // 3),
                    j * a.shape[3] // 2 : -(-(j + 1) * a.shape[3] // 2),
                ]
                out[:, :, i, j] = part.max((2, 3)) if kind == "max" else part.mean((2, 3))
        return out

    cases = [(data(2, 3, *s),) for s in [(7, 5), (1, 1), (3, 2), (6, 9)]]
    verify(lambda x: nn.adaptive_pool(x, (3, 2), kind), reference, ["nchw"], *cases)
    verify(
        lambda x: nn.adaptive_pool1d(x, 1, kind),
        lambda a: getattr(a, "max" if kind == "max" else "mean")(2, keepdims=True),
        ["ncw"],
        (data(2, 3, 5),),
    )
    verify(
        lambda x: nn.adaptive_pool3d(x, 1, kind, "NDHWC"),
        lambda a: getattr(a, "max" if kind == "max" else "mean")((1, 2, 3), keepdims=True),
        ["ndhwc"],
        (data(2, 3, 2, 4, 3),),
    )


# -------------------------------------------------------------------------------------- norms


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_group_and_instance_norm(dtype: str) -> None:
    def group(a, g, b):
        wide = a.astype("float64").reshape(a.shape[0], 2, -1)
        out = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-3)
        return out.reshape(a.shape) * g[:, None, None] + b[:, None, None]

    def instance(a, g, b):
        wide = a.astype("float64")
        out = (wide - wide.mean((2, 3), keepdims=True)) / np.sqrt(wide.var((2, 3), keepdims=True) + 1e-3)
        return out * g[:, None, None] + b[:, None, None]

    cases = [
        (data(*s, dtype=dtype), data(s[1], dtype=dtype), data(s[1], dtype=dtype)) for s in [(2, 6, 3, 5), (1, 2, 1, 2)]
    ]
    verify(
        lambda x, g, b: [nn.group_norm(x, g, b, 2, 1, [2, 3], 1e-3), nn.instance_norm(x, g, b, 1, [2, 3], 1e-3)],
        lambda x, g, b: (group(x, g, b), instance(x, g, b)),
        ["nchw", "c", "c"],
        *cases,
        tolerance=2e-4,
    )


def test_batch_norm_in_training() -> None:
    def reference(a, g, b, m, v):
        mean, var = a.mean((0, 2)), a.var((0, 2))
        out = (a - mean[:, None]) / np.sqrt(var + 1e-5)[:, None] * g[:, None] + b[:, None]
        return out, 0.8 * m + 0.2 * mean, 0.8 * v + 0.2 * var

    args = (data(4, 3, 5), data(3), data(3), data(3), np.abs(data(3)))
    verify(lambda *t: nn.batch_norm(*t, training=True, momentum=0.2), reference, ["ncw", *"cccc"], args, tolerance=1e-4)


def test_other_norms() -> None:
    verify(
        lambda x: nn.l2_normalize(x, 1e-6, 1),
        lambda a: a / np.sqrt(np.maximum((a * a).sum(1, keepdims=True), 1e-6)),
        ["nm"],
        (data(3, 5),),
    )

    def lrn(a):
        squares = np.pad(a * a, [(0, 0), (1, 1), (0, 0)])
        return a / (2 + 0.3 / 3 * sum(squares[:, k : k + a.shape[1]] for k in range(3))) ** 0.75

    verify(lambda x: nn.lrn(x, 3, 1, 0.3), lrn, ["ncw"], (data(2, 5, 3),))


def test_activations() -> None:
    x = data(40) * np.float32(4)
    erf = np.vectorize(math.erf, otypes=["float64"])
    pairs = {
        "gelu_tanh": lambda a: a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) / 2,
        "gelu": lambda a: a * (1 + erf(a / 2**0.5)) / 2,
        "silu": lambda a: a / (1 + np.exp(-a)),
        "selu": lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a)),
        "elu": lambda a: np.where(a > 0, a, np.expm1(a)),
        "softplus": lambda a: np.log1p(np.exp(a)),
        "relu6": lambda a: np.clip(a, 0, 6),
        "hard_sigmoid": lambda a: np.clip(a / 6 + 0.5, 0, 1),
        "hard_swish": lambda a: a * np.clip(a + 3, 0, 6) / 6,
    }
    verify(
        lambda t: [getattr(nn, name)(t) for name in pairs],
        lambda a: [f(a.astype("float64")) for f in pairs.values()],
        ["n"],
        (x,),
        (x[:0],),
        tolerance=1e-5,
    )


# ---------------------------------------------------------------------------------- attention


@pytest.mark.parametrize(
    ("mask", "window"), [(None, None), ("TopLeft", None), ("BottomRight", None), ("BottomRight", 2)]
)
def test_attention(mask: str | None, window: int | None) -> None:
    def reference(q, k, v, bias):
        q, k, v = (t.astype("float64").transpose(0, 2, 1, 3) for t in (q, k, v))
        k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]) + bias
        rows, columns = np.indices(scores.shape[-2:])
        last = rows + (scores.shape[-1] - scores.shape[-2] if mask == "BottomRight" else 0)
        seen = (columns <= last) if mask else np.ones_like(rows, bool)
        if window:
            seen &= columns > last - window
        scores = np.where(seen, scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return (shares / shares.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)

    cases = [
        (data(b, s, 4, d), data(b, t, h, d), data(b, t, h, e), data(b, 1, s, t))
        for b, s, t, h, d, e in [(2, 3, 5, 2, 4, 3), (1, 1, 1, 1, 1, 1), (1, 2, 2, 4, 3, 2)]
    ]
    verify(
        lambda q, k, v, b: nn.attention(q, k, v, b, None, mask, window),
        reference,
        [("b", "s", 4, "d"), ("b", "t", "h", "d"), ("b", "t", "h", "e"), ("b", 1, "s", "t")],
        *cases,
        tolerance=1e-4,
    )


# ---------------------------------------------------------------------------------- recurrent


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("reverse", [False, True])
def test_lstm(reverse: bool) -> None:
    def reference(x, wi, wh, bi, bh, h, c, p, a, b, d):
        hs, cs = [], []
        for step in (x[::-1] if reverse else x).astype("float64"):
            i, f, g, o = np.split(step @ wi.T + bi + h @ wh.T + bh, 4, 1)
            c = sigmoid(f + b * c) * c + sigmoid(i + a * c) * np.tanh(g)
            h = (sigmoid(o + d * c) * np.tanh(c)) @ p.T
            hs.append(h)
            cs.append(c)
        return np.stack(hs), np.stack(cs)

    t, n, m, cells, hidden = 4, 3, 5, 4, 2
    args = [
        data(t, n, m),
        data(4 * cells, m),
        data(4 * cells, hidden),
        data(4 * cells),
        data(4 * cells),
        data(n, hidden),
        data(n, cells),
        data(hidden, cells),
        data(cells),
        data(cells),
        data(cells),
    ]
    verify(
        lambda *a: nn.lstm(*a, reverse=reverse, weight_layout="IFGO"),
        reference,
        [("t", "n", m), (16, m), (16, 2), (16,), (16,), ("n", 2), ("n", 4), (2, 4), (4,), (4,), (4,)],
        args,
        tolerance=1e-4,
    )
    plain = [args[0], args[1], data(16, 4)]

    def simple(x, wi, wh):
        zero = np.zeros((n, 4))
        none = np.zeros(16)
        return reference(x, wi, wh, none, none, zero, zero, np.eye(4), *np.zeros((3, 4)))

    verify(lambda *a: nn.lstm(*a, reverse=reverse), simple, [("t", "n", m), (16, m), (16, 4)], plain, tolerance=1e-4)


@pytest.mark.parametrize("linear_before_reset", [False, True])
def test_gru_and_rnn(linear_before_reset: bool) -> None:
    def gru(x, wi, wh, bi, bh, h):
        out = []
        for step in x.astype("float64"):
            r, z, new = np.split(step @ wi.T + bi, 3, 1)
            hr, hz, hn = np.split(h @ wh.T + bh, 3, 1)
            r, z = sigmoid(r + hr), sigmoid(z + hz)
            hn = r * hn if linear_before_reset else (r * h) @ wh[6:].T + bh[6:]
            h = (1 - z) * np.tanh(new + hn) + z * h
            out.append(h)
        return np.stack(out)

    args = [data(4, 2, 5), data(9, 5), data(9, 3), data(9), data(9), data(2, 3)]
    verify(
        lambda *a: nn.gru(*a, linear_before_reset=linear_before_reset),
        gru,
        [("t", "n", 5), (9, 5), (9, 3), (9,), (9,), ("n", 3)],
        args,
        tolerance=1e-4,
    )

    def rnn(x, wi, wh):
        h, out = np.zeros((2, 3)), []
        for step in x.astype("float64"):
            h = np.tanh(step @ wi.T + h @ wh.T)
            out.append(h)
        return np.stack(out)

    verify(nn.rnn, rnn, [("t", "n", 5), (3, 5), (3, 3)], [args[0], data(3, 5), data(3, 3)], tolerance=1e-4)


# ------------------------------------------------------------------ losses, quantisation, space


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_nll_loss(reduction: str) -> None:
    def reference(x, t, w):
        kept = t != 1
        share = np.where(kept, w[np.where(kept, t, 0)], 0.0)
        each = -np.take_along_axis(x, t[:, None], 1)[:, 0] * share
        return each if reduction == "none" else each.sum() / (share.sum() if reduction == "mean" else 1)

    target = np.array([[0, 1, 2], [3, 3, 0]])
    verify(
        lambda x, t, w: nn.nll_loss(x, t, w, reduction, 1),
        reference,
        ["ncd", "nd", "c"],
        (data(2, 4, 3), target, np.abs(data(4)) + np.float32(1)),
        tolerance=1e-4,
    )


def test_losses_of_one_row() -> None:
    verify(lambda x, t: nn.nll_loss(x, t, None), lambda x, t: -x[t], ["c", ()], (data(5), np.array(3)))
    verify(
        nn.cross_entropy_with_logits,
        lambda x, t: -(x * t).sum() / len(x),
        ["nc", "nc"],
        (data(3, 4), data(3, 4)),
        tolerance=1e-4,
    )
    verify(nn.cross_entropy_with_logits, lambda x, t: -(x * t).sum(), ["c", "c"], (data(4), data(4)), tolerance=1e-4)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantisation(axis: int, dtype: str) -> None:
    x, info = data(4, 5) * np.float32(40), np.iinfo(dtype)
    scale, zero = np.abs(data(x.shape[axis])) + np.float32(0.1), data(x.shape[axis], dtype="int32", low=0)

    def spread(v: Array) -> Array:
        return v[:, None] if axis == 0 else v

    def quantised(a, s, z):
        return np.clip(np.round(a / spread(s)) + spread(z), info.min, info.max)

    names = ["nm", "n" if axis == 0 else "m", "n" if axis == 0 else "m"]
    verify(lambda a, s, z: nn.quantize(a, s, z, axis, dtype), quantised, names, (x, scale, zero))
    verify(
        lambda a, s, z: nn.dequantize(a, s, z, axis),
        lambda a, s, z: (a.astype(int) - spread(z)) * spread(s),
        names,
        (quantised(x, scale, zero).astype(dtype), scale, zero),
    )


def test_space() -> None:
    x = data(2, 8, 4, 6)

    def dcr(a):
        n, c, h, w = a.shape
        return a.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // 4, h * 2, w * 2)

    def crd(a):
        n, c, h, w = a.shape
        return a.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, h * 2, w * 2)

    shape = [("n", 8, "h", "w")]
    verify(
        lambda a: [nn.depth_to_space(a, 2), nn.depth_to_space(a, 2, mode="CRD"), nn.pixel_shuffle(a, 2)],
        lambda a: (dcr(a), crd(a), crd(a)),
        shape,
        (x,),
    )
    verify(lambda a: nn.space_to_depth(nn.depth_to_space(a, 2), 2), lambda a: a, shape, (x,), constant=False)
    verify(
        lambda a: nn.batch_to_space_nd(nn.space_to_batch_nd(a, [2, 3], [1, 0], [1, 2]), [2, 3], [1, 0], [1, 2]),
        lambda a: a,
        [x.shape],
        (x,),
    )

    def batched(a):
        out = np.pad(a, [(0, 0), (1, 1), (0, 0)])
        return out.reshape(2, 3, 2, 3).transpose(2, 0, 1, 3).reshape(4, 3, 3)

    verify(lambda a: nn.space_to_batch_nd(a, [2], [1], [1]), batched, [(2, 4, 3)], (data(2, 4, 3),))
    verify(
        lambda a: nn.dilate(a, [1, 3], 7.0),
        lambda a: np.insert(a, np.repeat(np.arange(1, a.shape[1]), 2), 7.0, 1),
        ["nm"],
        (data(2, 4),),
        (data(3, 1),),
        (data(3, 0),),
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: nn.conv2d_transpose_nchw(x, placeholder((3, 2, 3, 3)), 1, 0, None, 0), "the numbers of channels"),
        (lambda x: nn.conv2d_transpose_nchw(x, placeholder((4, 2, 3, 3)), 1, 0, None, 1), "output_padding 1 must be"),
        (lambda x: nn.pool2d(x, 2, 1, layout="NCHWX"), "pool2d: no layout 'NCHWX'"),
        (lambda x: nn.adaptive_pool(x, (1, 2, 3), "avg"), "adaptive_pool: output_size (1, 2, 3)"),
        (lambda x: nn.group_norm(x, None, None, 3, 1, [2]), "group_norm: 3 groups of axis 1"),
        (lambda x: nn.attention(x, x, placeholder((2, 7, 5, 6))), "attention: shapes do not fit"),
        (lambda x: nn.lstm(x, x, x), "lstm: 'X' (2, 4, 5, 6) must have 3 dimensions"),
        (lambda x: nn.nll_loss(x, x, None), "nll_loss: 'X' is float32, not an integer"),
        (lambda x: nn.quantize(x, placeholder((5,)), placeholder((6,))), "quantize: 'placeholder' is (5,)"),
        (lambda x: nn.depth_to_space(x, 3), "depth_to_space: 9 does not divide channels of 4"),
        (lambda x: nn.conv(x, x, 1, 0, 1, 1, "NCXY"), "no data layout 'NCXY'"),
    ],
)
def test_mistakes(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make(placeholder((2, 4, 5, 6), name="X"))
    assert text in error.value.message
    assert __file__ in error.value.message
