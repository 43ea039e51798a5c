"""Layers of neural networks: StructInfo, kernels and numpy agree; layouts; refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Var
from compiler.relax.op.core.layout import Layout, LayoutUse
from compiler.relax.op.core.registry import OPERATORS
from tests.kit.compiler.relax_ops import WITHOUT_ZERO, Case, check
from tests.kit.compiler.topi import windows

Array = np.ndarray[Any, Any]
nn = op.nn
FLOATS = ("float32", "float64")
ERF = np.vectorize(math.erf, otypes=["float64"])


def softmax(a: Array, axis: int = -1) -> Array:
    a = a.astype("float64")
    if not a.size:
        return a
    powers = np.exp(a - a.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def normal(a: Array, axes: Any) -> Array:
    a = a.astype("float64")
    with np.errstate(all="ignore"):
        return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + 1e-5)


def along(vector: Array, rank: int, axis: int) -> Array:
    return vector.reshape([-1 if d == axis else 1 for d in range(rank)])


def grouped(a: Array, groups: int) -> Array:
    parts = a.reshape(a.shape[0], groups, a.shape[1] // groups, *a.shape[2:])
    return normal(parts, tuple(range(2, parts.ndim))).reshape(a.shape)


def batch(a: Array, gamma: Array, beta: Array, mean: Array, var: Array, training: bool = False) -> list[Array]:
    if not training:
        scaled = (a - along(mean, 3, 1)) / np.sqrt(along(var, 3, 1) + 1e-5)
        return [scaled * along(gamma, 3, 1) + along(beta, 3, 1), mean, var]
    own = normal(a, (0, 2)) * along(gamma, 3, 1) + along(beta, 3, 1)
    return [own, 0.9 * mean + 0.1 * a.mean((0, 2)), 0.9 * var + 0.1 * a.var((0, 2))]


def positive(a: Array) -> Array:
    return abs(a) + 0.5


ACTIVATIONS = [
    Case("relu", nn.relu, lambda a: np.maximum(a, 0), ["n m"], ("float32", "int32", "float16", "bfloat16")),
    Case("relu6", nn.relu6, lambda a: np.clip(a, 0, 6), ["n m"], ("float32", "int32")),
    Case("gelu", nn.gelu, lambda a: a * (1 + ERF(a / math.sqrt(2))) / 2, ["n m"], FLOATS),
    Case("gelu_tanh", nn.gelu_tanh,
         lambda a: a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) / 2, ["n m"], FLOATS),
    Case("silu", nn.silu, lambda a: a / (1 + np.exp(-a)), ["n m"], (*FLOATS, "float16")),
    Case("selu", nn.selu, lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a)),
         ["n m"], FLOATS),
    Case("leakyrelu", lambda x: nn.leakyrelu(x, 0.2), lambda a: np.where(a > 0, a, 0.2 * a), ["n m"], FLOATS),
    Case("softplus", lambda x: nn.softplus(x, 2.0), lambda a: np.log1p(np.exp(2 * a)) / 2, ["n m"], FLOATS),
    Case("prelu", lambda x, s: nn.prelu(x, s, 1), lambda a, s: np.where(a > 0, a, a * along(s, 3, 1)),
         ["n m k", "m"], FLOATS),
]  # fmt: skip
NORMS = [
    Case("softmax", nn.softmax, softmax, ["n m"], FLOATS),
    Case("softmax in front", lambda x: nn.softmax(x, 0), lambda a: softmax(a, 0), ["m n"], sizes=WITHOUT_ZERO),
    Case("log_softmax", nn.log_softmax, lambda a: np.log(softmax(a)), ["n m"], FLOATS),
    Case("layer_norm", lambda x, g, b: nn.layer_norm(x, g, b, -1), lambda a, g, b: normal(a, -1) * g + b,
         ["n m k", "k", "k"], FLOATS, tolerance=1e-4),
    Case("layer_norm over two", lambda x, g, b: nn.layer_norm(x, g, b, [1, 2], center=False),
         lambda a, g, b: normal(a, (1, 2)) * g, ["n m k", "m k", "m k"], tolerance=1e-4),
    Case("rms_norm", nn.rms_norm, lambda a, g: a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-5) * g,
         ["n m k", "k"], FLOATS, tolerance=1e-4),
    Case("group_norm", lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2]),
         lambda a, g, b: grouped(a, 2) * along(g, 3, 1) + along(b, 3, 1), ["n 4 m", "4", "4"], tolerance=1e-4),
    Case("instance_norm", lambda x, g, b: nn.instance_norm(x, g, b, 1, [2], scale=False),
         lambda a, g, b: normal(a, 2) + along(b, 3, 1), ["n m k", "m", "m"], tolerance=1e-4),
    Case("batch_norm", lambda *x: nn.batch_norm(*x, axis=1, training=False), batch, ["n m k", "m", "m", "m", "m"],
         FLOATS, values={4: positive}, tolerance=1e-4),
    Case("batch_norm in training", lambda *x: nn.batch_norm(*x, axis=1), lambda *a: batch(*a, training=True),
         ["n m k", "m", "m", "m", "m"], values={4: positive}, sizes=WITHOUT_ZERO, tolerance=1e-4),
]  # fmt: skip


# ------------------------------------------------------------------------------------- windows


def convolved(x: Array, w: Array, strides: Any, padding: Any, dilation: Any, groups: int = 1) -> Array:
    seen = windows(x, w.shape[2:], strides, dilation, padding, 0.0)
    rank = x.ndim - 2
    inner = list(range(2 + rank, 2 + 2 * rank))
    parts = [
        np.tensordot(s, k.astype("float64"), ([1, *inner], list(range(1, k.ndim))))
        for s, k in zip(np.split(seen, groups, 1), np.split(w, groups))
    ]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1)


def spread(x: Array, w: Array, strides: Any, padding: Any, extra: Any, groups: int = 1) -> Array:
    """The transposed convolution, each element of `x` adding its filters."""
    rank, taps = x.ndim - 2, w.shape[2:]
    whole = [(n - 1) * s + k + e for n, s, k, e in zip(x.shape[2:], strides, taps, extra)]
    out = np.zeros((x.shape[0], w.shape[1] * groups, *whole))
    for g, (part, kernel) in enumerate(zip(np.split(x, groups, 1), np.split(w, groups))):
        filters = slice(g * w.shape[1], (g + 1) * w.shape[1])
        for tap in np.ndindex(*taps):
            where = tuple(slice(t, t + s * n, s) for t, s, n in zip(tap, strides, x.shape[2:]))
            out[(slice(None), filters, *where)] += np.einsum("nc...,ck->nk...", part, kernel[(..., *tap)])
    inside = [slice(b, n - a) for b, a, n in zip(padding[:rank], padding[rank:], whole)]
    return out[(slice(None), slice(None), *inside)]


def blocked(a: Array, block: int) -> Array:
    """NCHW as NCHW<block>c."""
    n, c, h, w = a.shape
    return a.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)


def unblocked(a: Array) -> Array:
    n, c, h, w, block = a.shape
    return a.transpose(0, 1, 4, 2, 3).reshape(n, c * block, h, w)


def means(a: Array, size: int, stride: int, padding: int, whole: bool) -> Array:
    """Means of squares of `size`, by how many elements lie inside, or by all of them when `whole`."""
    pads = (padding,) * 4
    sums = windows(a, (size, size), (stride, stride), (1, 1), pads, 0.0).sum((-1, -2))
    counts = windows(np.ones_like(a), (size, size), (stride, stride), (1, 1), pads, 0.0).sum((-1, -2))
    return sums / (size * size if whole else counts)


HALVES = ("float16", "bfloat16")
NEAR = {"tolerance": 1e-4, "unlike": HALVES}
"""Sums are kept in the type of the elements, which 16 bits do not hold to a part in 10,000."""
CONVOLUTIONS = [
    Case("conv1d", lambda x, w: nn.conv1d(x, w, 2, (1, 0), 2), lambda a, w: convolved(a, w, (2,), (1, 0), (2,)),
         ["n 3 8", "m 3 2"], **NEAR),
    Case("conv2d", lambda x, w: nn.conv2d(x, w, (2, 1), 1), lambda a, w: convolved(a, w, (2, 1), (1,) * 4, (1, 1)),
         ["n 4 k 6", "m 4 3 2"], FLOATS, **NEAR),
    Case("conv2d in groups", lambda x, w: nn.conv2d(x, w, padding=(0, 1, 2, 0), groups=2),
         lambda a, w: convolved(a, w, (1, 1), (0, 1, 2, 0), (1, 1), 2), ["n 4 k 5", "6 2 2 2"], **NEAR),
    Case("conv2d of integers", lambda x, w: nn.conv2d(x, w, out_dtype="int32"),
         lambda a, w: convolved(a, w, (1, 1), (0,) * 4, (1, 1)), ["n 3 4 5", "2 3 2 2"], ("int8",),
         unlike=(*FLOATS, *HALVES)),
    Case("conv2d of unsigned and signed", lambda x, w: nn.conv2d(x, w, out_dtype="int32"),
         lambda a, w: convolved(a, w, (1, 1), (0,) * 4, (1, 1)), ["n 3 4 5", "2 3 2 2"], ("uint8",), fixed={1: "int8"}),
    Case("conv2d NHWC", lambda x, w: nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
         lambda a, w: convolved(a.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 1), (1,) * 4, (1, 1))
         .transpose(0, 2, 3, 1), ["n k 5 3", "3 3 3 m"], **NEAR),
    Case("conv2d NCHW to NHWC", lambda x, w: nn.conv2d(x, w, out_layout="NHWC"),
         lambda a, w: convolved(a, w, (1, 1), (0,) * 4, (1, 1)).transpose(0, 2, 3, 1), ["n 3 4 5", "m 3 2 2"], **NEAR),
    Case("conv2d NCHW4c", lambda x, w: nn.conv2d(x, w, data_layout="NCHW4c", kernel_layout="OIHW2o"),
         lambda a, w: blocked(convolved(unblocked(a), unblocked(w.transpose(1, 0, 2, 3, 4)).transpose(1, 0, 2, 3),
                                        (1, 1), (0,) * 4, (1, 1)), 4), ["n 2 5 4 4", "4 8 2 2 2"], **NEAR),
    Case("conv3d", lambda x, w: nn.conv3d(x, w, (1, 2, 1), 1),
         lambda a, w: convolved(a, w, (1, 2, 1), (1,) * 6, (1,) * 3),
         ["n 2 3 k 4", "2 2 2 3 1"], **NEAR),
    Case("conv1d_transpose", lambda x, w: nn.conv1d_transpose(x, w, 2, 1, 1),
         lambda a, w: spread(a, w, (2,), (1, 1), (1,)), ["n 3 5", "3 m 3"], sizes=WITHOUT_ZERO, **NEAR),
    Case("conv2d_transpose", lambda x, w: nn.conv2d_transpose(x, w, (2, 1), (1, 0), groups=2),
         lambda a, w: spread(a, w, (2, 1), (1, 0, 1, 0), (0, 0), 2), ["n 4 3 4", "4 3 3 2"], **NEAR),
    Case("conv2d_transpose NHWC", lambda x, w: nn.conv2d_transpose(x, w, 2, data_layout="NHWC", kernel_layout="HWOI"),
         lambda a, w: spread(a.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (2, 2), (0,) * 4, (0, 0))
         .transpose(0, 2, 3, 1), ["n 3 4 2", "2 2 3 2"], **NEAR),
    Case("conv3d_transpose", lambda x, w: nn.conv3d_transpose(x, w, 2),
         lambda a, w: spread(a, w, (2,) * 3, (0,) * 6, (0,) * 3), ["n 2 2 3 2", "2 3 2 2 2"], **NEAR),
]  # fmt: skip
POOLS = [
    Case("max_pool1d", lambda x: nn.max_pool1d(x, 3, 2, 1),
         lambda a: windows(a, (3,), (2,), (1,), (1, 1), -np.inf).max(-1), ["n m 7"], ("float32", "int32")),
    Case("max_pool2d", lambda x: nn.max_pool2d(x, (3, 2), 2, (1, 0), 1),
         lambda a: windows(a, (3, 2), (2, 2), (1, 1), (1, 0, 1, 0), -np.inf).max((-1, -2)), ["n m 7 6"],
         ("float32", "int8")),
    Case("max_pool2d up", lambda x: nn.max_pool2d(x, 2, 2, ceil_mode=True),
         lambda a: windows(a, (2, 2), (2, 2), (1, 1), (0, 0, 1, 1), -np.inf).max((-1, -2)), ["n m 5 7"]),
    Case("max_pool2d crosswise", lambda x: nn.max_pool2d(x, (3, 2), 1, layout="NCWH"),
         lambda a: windows(a.swapaxes(2, 3), (3, 2), (1, 1), (1, 1), (0,) * 4, 0.0).max((-1, -2)).swapaxes(2, 3),
         ["n m 4 5"]),
    Case("max_pool3d", lambda x: nn.max_pool3d(x, 2, 1),
         lambda a: windows(a, (2,) * 3, (1,) * 3, (1,) * 3, (0,) * 6, 0.0).max((-1, -2, -3)), ["n m 3 4 2"]),
    Case("avg_pool1d", lambda x: nn.avg_pool1d(x, 3, 1, 1),
         lambda a: windows(a, (3,), (1,), (1,), (1, 1), 0.0).mean(-1), ["n m 5"]),
    Case("avg_pool2d", lambda x: nn.avg_pool2d(x, 3, 2, 1), lambda a: means(a, 3, 2, 1, False), ["n 2 5 5"]),
    Case("avg_pool2d of pads", lambda x: nn.avg_pool2d(x, 3, 2, 1, count_include_pad=True),
         lambda a: means(a, 3, 2, 1, True), ["n 2 5 5"]),
    Case("avg_pool2d NCHW4c", lambda x: nn.avg_pool2d(x, 2, 1, layout="NCHW4c"),
         lambda a: blocked(means(unblocked(a), 2, 1, 0, True), 4), ["n 2 4 3 4"]),
    Case("avg_pool3d", lambda x: nn.avg_pool3d(x, 2, 1, out_layout="NDHWC"),
         lambda a: windows(a, (2,) * 3, (1,) * 3, (1,) * 3, (0,) * 6, 0.0).mean((-1, -2, -3)).transpose(0, 2, 3, 4, 1),
         ["n m 3 4 2"]),
    Case("adaptive_avg_pool1d", lambda x: nn.adaptive_avg_pool1d(x, 2),
         lambda a: np.stack([a[..., :3].mean(-1), a[..., 2:].mean(-1)], -1), ["n m 5"]),
    Case("adaptive_avg_pool2d", lambda x: nn.adaptive_avg_pool2d(x, 1), lambda a: a.mean((2, 3), keepdims=True),
         ["n m k 4"], sizes=WITHOUT_ZERO),
    Case("adaptive_avg_pool2d NHWC", lambda x: nn.adaptive_avg_pool2d(x, (2, 1), "NHWC"),
         lambda a: np.stack([a[:, :2].mean((1, 2)), a[:, 2:].mean((1, 2))], 1)[:, :, None], ["n 4 3 m"]),
    Case("adaptive_avg_pool2d of all", nn.adaptive_avg_pool2d, lambda a: a, ["n m 3 2"]),
    Case("adaptive_avg_pool3d", lambda x: nn.adaptive_avg_pool3d(x, (1, 1, 3)),
         lambda a: a.mean((2, 3), keepdims=True), ["n m 2 4 3"]),
]  # fmt: skip


# ------------------------------------------------------------------------ attention and losses


def attended(q: Array, k: Array, v: Array, bias: Any = 0.0, scale: float | None = None, seen: Any = True) -> Array:
    scores = np.einsum("bihw,bjhw->bhij", q, k) * (scale or q.shape[-1] ** -0.5) + bias
    return np.einsum("bhij,bjhw->bihw", softmax(np.where(seen, scores, -1e30)), v)


def lower(queries: int, keys: int, shift: int = 0) -> Array:
    return np.tri(queries, keys, shift, dtype=bool)


def attended_apart(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """Two sequences: queries 0-1 and 2-4, keys 0-2 and 3-4."""
    parts = []
    for a, b in ((slice(0, 2), slice(0, 3)), (slice(2, 5), slice(3, 5))):
        rows, columns = a.stop - a.start, b.stop - b.start
        parts.append(attended(q[:, a], k[:, b], v[:, b], seen=lower(rows, columns) if causal else True))
    return np.concatenate(parts, 1)


def var_len(mask: str | None) -> Any:
    return lambda q, k, v, *more: nn.attention_var_len(q, k, v, *more, causal_mask=mask)


STARTS: dict[int, Any] = {3: lambda a: np.array([0, 2, 5]), 5: lambda a: np.array([0, 3, 5])}
APART: dict[str, Any] = {
    "shapes": ["1 5 2 4", "1 5 2 4", "1 5 2 3", "3", "", "3", ""], "fixed": dict.fromkeys(range(3, 7), "int32"),
    "values": STARTS, "tolerance": 1e-4,
}  # fmt: skip


def chosen(p: Array, t: Array) -> Array:
    return np.take_along_axis(p, t[:, None].astype(int), 1)[:, 0]


def weighted_mean(p: Array, t: Array, w: Array) -> Any:
    return np.asarray(-(chosen(p, t) * w[t]).sum() / w[t].sum())


CLASSES: dict[int, Any] = {1: lambda a: np.asarray(abs(a) % 5)}
ATTENTION = [
    Case("attention", nn.attention, attended, ["n m 2 4", "n k 2 4", "n k 2 3"], FLOATS, tolerance=1e-4),
    Case("attention with few heads", lambda q, k, v: nn.attention(q, k, v, scale=0.3),
         lambda q, k, v: attended(q, k.repeat(2, 2), v.repeat(2, 2), scale=0.3), ["n m 4 4", "n k 2 4", "n k 2 4"],
         tolerance=1e-4),
    Case("attention that is causal", lambda q, k, v: nn.attention(q, k, v, causal_mask="TopLeft"),
         lambda q, k, v: attended(q, k, v, seen=lower(q.shape[1], k.shape[1])), ["n m 2 4", "n k 2 4", "n k 2 3"],
         tolerance=1e-4),
    Case("attention_bias", nn.attention, lambda q, k, v, b: attended(q, k, v, b),
         ["n m 2 4", "n k 2 4", "n k 2 3", "n 1 m k"], tolerance=1e-4),
    Case("attention_var_len", var_len(None), lambda q, k, v, *_: attended_apart(q, k, v, False), **APART),
    Case("attention_var_len that is causal", var_len("TopLeft"),
         lambda q, k, v, *_: attended_apart(q, k, v, True), **APART),
]  # fmt: skip
LOSSES = [
    Case("cross_entropy_with_logits", nn.cross_entropy_with_logits, lambda p, t: -(p * t).sum() / p.shape[0],
         ["n m", "n m"], sizes=WITHOUT_ZERO, tolerance=1e-4),
    Case("nll_loss", nn.nll_loss, weighted_mean, ["n 5", "n", "5"], FLOATS, fixed={1: "int64"},
         values={**CLASSES, 2: positive}, sizes=WITHOUT_ZERO, tolerance=1e-4),
    Case("nll_loss of each", lambda p, t: nn.nll_loss(p, t, reduction="none", ignore_index=2),
         lambda p, t: np.where(t == 2, 0, -chosen(p, t)), ["n 5 m", "n m"], fixed={1: "int32"}, values=CLASSES),
    Case("nll_loss of one", lambda p, t: nn.nll_loss(p, t, reduction="sum"), lambda p, t: -p[t], ["5", ""],
         fixed={1: "int32"}, values=CLASSES),
]  # fmt: skip


def shuffled(a: Array) -> Array:
    n, c, h, w = a.shape
    return a.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, h * 2, w * 2)


def padded(mode: str) -> Any:
    return lambda a: np.pad(a, [(0, 0), (1, 2)], mode=mode)


SHAPES = [
    Case("pad", lambda x: nn.pad(x, (1, 0, 2, 3), pad_value=2),
         lambda a: np.pad(a, [(1, 0), (2, 3)], constant_values=2), ["n m"], ("float32", "int32")),
    Case("pad reflect", lambda x: nn.pad(x, (0, 0, 1, 2), "reflect"), padded("reflect"), ["n 4"]),
    Case("pad replicate", lambda x: nn.pad(x, (0, 0, 1, 2), "replicate"), padded("edge"), ["n m"]),
    Case("pad circular", lambda x: nn.pad(x, (0, 0, 1, 2), "circular"), padded("wrap"), ["n 4"]),
    Case("pixel_shuffle", lambda x: nn.pixel_shuffle(x, 2), shuffled, ["n 8 m k"]),
    Case("batch_flatten", nn.batch_flatten, lambda a: a.reshape(a.shape[0], math.prod(a.shape[1:])), ["n m k"]),
    Case("dropout", nn.dropout, lambda a: [a, np.ones_like(a)], ["n m"], FLOATS),
]  # fmt: skip

CASES = [*ACTIVATIONS, *NORMS, *CONVOLUTIONS, *POOLS, *ATTENTION, *LOSSES, *SHAPES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_info_kernel_and_numpy_agree(case: Case) -> None:
    check(case)


def test_every_operator_of_layers_has_a_case() -> None:
    named = {case.name.split()[0] for case in CASES}
    declared = {name.removeprefix("relax.nn.") for name in OPERATORS if name.startswith("relax.nn.")}
    assert declared - named == set()


# -------------------------------------------------------------------------- layouts, refusals


def var(*shape: int, dtype: str = "float32") -> Var:
    return Var("x", TensorStructInfo(shape, dtype))


def laid(call: Any, *inputs: Layout | None, **desired: list[str]) -> Any:
    """Return the answer of the call's layout rule; `desired` has layouts by the operator's short name."""
    entry = OPERATORS[call.op.name]
    assert callable(entry.layout)
    asked = {f"relax.nn.{name}": layouts for name, layouts in desired.items()}
    return entry.layout(LayoutUse(BlockBuilder().normalize(call), inputs, asked))


NHWC = Layout.permuted((0, 2, 3, 1))


def test_a_convolution_lies_as_asked_or_as_its_data() -> None:
    call = nn.conv2d(var(1, 32, 8, 8), var(32, 32, 3, 3))
    found = laid(call, None, None, conv2d=["NHWC", "HWIO"])
    assert found.inputs == (NHWC, Layout.between("OIHW", "HWIO"))
    assert found.outputs == (NHWC,)
    assert found.attrs == {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_layout": "NHWC"}
    blocks = laid(call, None, None, conv2d=["NCHW16c", "OIHW16o"])
    assert blocks.outputs == (Layout.between("NCHW", "NCHW16c"),)
    few = nn.conv2d(var(1, 3, 8, 8), var(32, 3, 3, 3))
    assert laid(few, None, None, conv2d=["NCHW16c"]).attrs == {}
    follows = laid(call, NHWC, None)
    assert follows.attrs == {"data_layout": "NHWC", "out_layout": "NHWC"}
    assert follows.inputs == (NHWC, None)


def test_layers_move_their_axes() -> None:
    x = var(1, 32, 8, 8)
    pool = laid(nn.max_pool2d(x, 2), Layout.between("NCHW", "NCHW16c"))
    assert pool.attrs == {"layout": "NCHW16c", "out_layout": "NCHW16c"}
    assert laid(nn.max_pool2d(x, 2), Layout.between("NCHW", "NCHW4h")).attrs == {}
    norm = laid(nn.batch_norm(x, *[var(32)] * 4, axis=1), NHWC, None, None, None, None)
    assert norm.attrs == {"axis": 3}
    assert norm.outputs == (NHWC, None, None)
    assert laid(nn.pad(x, (0, 0, 1, 2, 3, 4, 5, 6)), NHWC).attrs == {"pad_width": (0, 0, 3, 4, 5, 6, 1, 2)}
    group = laid(nn.group_norm(x, var(32), var(32), 4, 1, (2, 3)), NHWC, None, None)
    assert group.attrs == {"channel_axis": 3, "axes": (1, 2)}
    assert laid(nn.layer_norm(x, var(32), var(32), 1), NHWC, None, None).attrs == {"axes": 3}
    assert laid(nn.layer_norm(x, var(8, 8), var(8, 8), (2, 3)), NHWC, None, None).attrs == {}
    assert laid(nn.prelu(x, var(32)), NHWC, None).attrs == {"axis": 3}


def test_attributes_are_held_whole() -> None:
    call = nn.conv2d(var(1, 3, 8, 8), var(4, 3, 3, 3), strides=2, padding=(1, 2))
    assert call.attrs["strides"] == (2, 2)
    assert call.attrs["padding"] == (1, 2, 1, 2)
    assert call.attrs["out_layout"] == "NCHW"
    assert nn.attention(*[var(1, 2, 3, 4)] * 3).op.name == "relax.nn.attention"
    assert nn.attention(*[var(1, 2, 3, 4)] * 3, var(2, 2)).op.name == "relax.nn.attention_bias"


X, W = var(1, 4, 8, 8), var(6, 4, 3, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.relu(var(2, dtype="bool")), "data must have floating point or integer elements"),
        (lambda: nn.gelu(var(2, dtype="int32")), "data must have floating point elements"),
        (lambda: nn.prelu(X, var(3)), "the dimension along axis and that of alpha differ: 4 and 3"),
        (lambda: nn.layer_norm(X, var(8, 8), var(8, 8), -1), "gamma must have 1 dimensions, one for each of axes"),
        (lambda: nn.layer_norm(X, var(7), var(8), -1), "the dimensions of axes and those of gamma differ: 8 and 7"),
        (lambda: nn.group_norm(X, var(4), var(4), 3, 1, [2, 3]), "num_groups is 3, which does not divide"),
        (lambda: nn.instance_norm(X, var(4), var(4), 1, [1, 2]), "which has channel_axis 1 among them"),
        (lambda: nn.batch_norm(X, *[var(4)] * 3, var(5), axis=1), "those of moving_var differ: 4 and 5"),
        (lambda: nn.conv2d(X, var(6, 3, 3, 3)), "the channels of data and those of weight, times groups differ"),
        (lambda: nn.conv2d(X, W, groups=0), "groups is 0, it must be positive"),
        (lambda: nn.conv2d(X, var(6, 1, 3, 3), groups=4), "groups is 4, which does not divide the 6 filters"),
        (lambda: nn.conv2d(X, W, strides=(1, 2, 3)), "strides is (1, 2, 3), it must be one number or 2"),
        (lambda: nn.conv2d(X, W, padding=(1, 2, 3)), "padding is (1, 2, 3), it must be one number, 2 or 4"),
        (lambda: nn.conv2d(X, W, padding=-1), "none must be negative"),
        (lambda: nn.conv2d(X, W, data_layout="NCHV"), "data_layout: 'NCHV' is no layout of the dimensions N, C, H, W"),
        (lambda: nn.conv2d(X, W, out_layout="NCHW4c"), "blocks of 4 along C do not divide its size, 6"),
        (lambda: nn.conv2d(X, var(6, 4, 9, 9)), "a window of 9 does not fit into the dimension H of data, 8"),
        (lambda: nn.conv2d(var(4, 8, 8), W), "data must have 4 dimensions, got 3"),
        (lambda: nn.conv2d_transpose(X, var(4, 6, 3, 3), output_padding=1), "it must be less than strides or dilation"),
        (lambda: nn.max_pool2d(X, 0), "pool_size is (0, 0), its numbers must be positive"),
        (lambda: nn.max_pool2d(X, 9), "a window of 9 does not fit"),
        (lambda: nn.adaptive_avg_pool2d(X, 0), "output_size is 0, its numbers must be positive"),
        (lambda: nn.attention(X, X, var(1, 5, 8, 8)), "the lengths of key and value differ: 4 and 5"),
        (lambda: nn.attention(X, X, X, causal_mask="Left"), "causal_mask is 'Left'"),
        (lambda: nn.attention(X, X, X, window_size=2), "it must be positive, and needs a causal_mask"),
        (lambda: nn.attention(X, X, X, var(3, 4)), "bias does not broadcast"),
        (lambda: nn.nll_loss(var(3, 4), var(2, dtype="int64")), "predictions and targets differ: 3 and 2"),
        (lambda: nn.nll_loss(var(3, 4), var(3, dtype="int64"), reduction="max"), "reduction is 'max'"),
        (lambda: nn.cross_entropy_with_logits(var(3, 4), var(3)), "must have one shape"),
        (lambda: nn.pad(X, (1, 2, 3)), "it must be two numbers for each dimension"),
        (lambda: nn.pad(X, (1, 2)), "pad_width has 2 numbers, two for each of 1 dimensions"),
        (lambda: nn.pad(var(3), (3, 0), "reflect"), "more than data (3,) of float32 has to repeat"),
        (lambda: nn.pixel_shuffle(X, 3), "whose square does not divide the 4 channels"),
        (lambda: nn.dropout(X, 1.0), "rate is 1.0, it must be at least 0 and less than 1"),
    ],
)  # fmt: skip
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(IRError) as error:
        BlockBuilder().normalize(make())
    assert message in str(error.value)


def test_work_of_convolutions() -> None:
    call = BlockBuilder().normalize(nn.conv2d(X, W))
    assert repr(OPERATORS["relax.nn.conv2d"].work(call).flops) == f"T.int64({2 * 6 * 6 * 6 * 4 * 9})"
    spread_call = BlockBuilder().normalize(nn.conv2d_transpose(X, var(4, 6, 3, 3)))
    flops = OPERATORS["relax.nn.conv2d_transpose"].work(spread_call).flops
    assert repr(flops) == f"T.int64({2 * 4 * 8 * 8 * 6 * 9})"
