"""Transposed, three-dimensional and deformable convolutions against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compiler import topi
from tests.kit.compiler.topi import data, verify, windows

nn = topi.nn
Array = np.ndarray


def transposed(x: Array, w: Array, strides, padding, extra, dilation, groups: int) -> Array:
    """Scatter each input element times its kernel; NC..., IO... layouts."""
    rank, per = x.ndim - 2, w.shape[1]
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e + a + b
        for n, s, k, d, e, b, a in zip(
            x.shape[2:], strides, w.shape[2:], dilation, extra, padding[:rank], padding[rank:]
        )
    ]
    full = [f - a - b for f, b, a in zip(full, padding[:rank], padding[rank:])]
    grown = np.zeros((x.shape[0], per * groups, *(f + 64 for f in full)))
    channels = x.shape[1] // groups
    for tap in np.ndindex(w.shape[2:]):
        window = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, x.shape[2:], strides)
        )
        for g in range(groups):
            part, kernel = (
                x[:, g * channels : (g + 1) * channels],
                w[(slice(g * channels, (g + 1) * channels), slice(None), *tap)],
            )
            grown[(slice(None), slice(g * per, (g + 1) * per), *window)] += np.einsum("nc...,co->no...", part, kernel)
    sizes = [f - b - a for f, b, a in zip(full, padding[:rank], padding[rank:])]
    return grown[(slice(None), slice(None), *(slice(b, b + n) for b, n in zip(padding, sizes)))]


@pytest.mark.parametrize(
    ("rank", "strides", "padding", "extra", "groups"),
    [
        (1, 2, (1, 0), 1, 1),
        (1, 3, (0, 2), 0, 2),
        (2, 2, (1, 0, 0, 1), (1, 0), 1),
        (2, 1, (1, 1, 1, 1), 0, 2),
        (3, 2, (0,) * 6, 1, 1),
    ],
)
def test_transposed_convolutions(rank: int, strides, padding, extra, groups: int) -> None:
    names = ["conv1d_transpose_ncw", "conv2d_transpose_nchw", "conv3d_transpose_ncdhw"]
    op = getattr(nn, names[rank - 1] if groups == 1 else f"group_{names[rank - 1]}")
    spread = (extra,) * rank if isinstance(extra, int) else extra

    def reference(x, w):
        return transposed(x, w, (strides,) * rank, padding, spread, (1,) * rank, groups)

    last = () if groups == 1 else (groups,)
    cases = [
        (data(2, 4, *size), data(4, 3, *[3, 2, 2][:rank])) for size in ([5, 4, 3][:rank], [2] * rank, [3, 1, 2][:rank])
    ]
    verify(
        lambda x, w: op(x, w, strides, padding, None, extra, *last),
        reference,
        [("n", 4, *"abc"[:rank]), (4, 3, *[3, 2, 2][:rank])],
        *cases,
        tolerance=1e-4,
    )


def test_a_transposed_convolution_in_other_layouts() -> None:
    x, w = data(2, 5, 4, 6), data(3, 2, 3, 6)  # NHWC, HWOI

    def reference(a, k):
        out = transposed(a.transpose(0, 3, 1, 2), k.transpose(3, 2, 0, 1), (2, 1), (1, 0, 0, 0), (0, 0), (2, 1), 2)
        return out.transpose(0, 2, 3, 1)

    verify(
        lambda a, k: nn.conv_transpose("t", a, k, (2, 1), (1, 0, 0, 0), 0, (2, 1), 2, None, "NHWC", "HWOI"),
        reference,
        ["nhwc", (3, 2, 3, 6)],
        (x, w),
        tolerance=1e-4,
    )


def test_conv3d_and_its_layouts() -> None:
    x, w = data(2, 4, 3, 5, 4), data(6, 2, 2, 3, 1)

    def reference(a, k):
        seen = windows(a, (2, 3, 1), (1, 2, 1), (1, 1, 2), (0, 1, 1, 1, 0, 2), 0.0)
        parts = [np.einsum("nczyxdhw,kcdhw->nkzyx", s, p) for s, p in zip(np.split(seen, 2, 1), np.split(k, 2))]
        return np.concatenate(parts, 1)

    how = ((1, 2, 1), (0, 1, 1, 1, 0, 2), (1, 1, 2), 2)
    verify(
        lambda a, k: nn.conv3d_ncdhw(a, k, *how),
        reference,
        [("n", 4, "d", "h", "w"), (6, 2, 2, 3, 1)],
        (x, w),
        tolerance=1e-4,
    )
    verify(
        lambda a, k: nn.conv(a, k, *how, "NDHWC", "DHWIO"),
        lambda a, k: reference(x, w).transpose(0, 2, 3, 4, 1),
        [("n", "d", "h", "w", 4), (2, 3, 1, 2, 6)],
        (np.ascontiguousarray(x.transpose(0, 2, 3, 4, 1)), np.ascontiguousarray(w.transpose(2, 3, 4, 1, 0))),
        tolerance=1e-4,
    )


def test_deformable_convolution() -> None:
    def pixel(image: Array, y: float, x: float) -> float:
        total = 0.0
        for i in (math.floor(y), math.floor(y) + 1):
            for j in (math.floor(x), math.floor(x) + 1):
                if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
                    total += image[i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
        return total

    def reference(a, o, k):
        out = np.zeros((1, 2, *o.shape[2:]))
        for f, c, y, x, r, s in np.ndindex(2, 2, *o.shape[2:], 2, 3):
            tap = 2 * (f * 6 + r * 3 + s)  # the offset group is that of the channel
            channel = f * 2 + c
            down, right = o[0, tap, y, x], o[0, tap + 1, y, x]
            out[0, f, y, x] += pixel(a[0, channel], y * 2 + r - 1 + down, x + s * 2 + right) * k[f, c, r, s]
        return out

    args = data(1, 4, 5, 6), data(1, 24, 3, 2), data(2, 2, 2, 3)
    verify(
        lambda a, o, k: nn.deformable_conv2d_nchw(a, o, k, (2, 1), (1, 0, 1, 0), (1, 2), 2, 2, None),
        reference,
        [a.shape for a in args],
        args,
        tolerance=1e-4,
    )
