"""Every converter against torch: a row an operator, by its family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.kit.torch.agreement import check, imported


def f(*shape: int) -> Any:
    """Numbers from -2 to 2, none near an integer, where rounding would be a matter of digits."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.rand(shape, generator=generator) * 4 - 2 + 0.01


def positive(*shape: int) -> Any:
    return f(*shape).abs() + 0.1


def unit(*shape: int) -> Any:
    return f(*shape) / 2.2


def ints(*shape: int, low: int = 0, high: int = 5) -> Any:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(len(shape)))


def bools(*shape: int) -> Any:
    return f(*shape) > 0


X = (f(3, 4),)
UNARY: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        name: (getattr(torch, name), X)
        for name in (
            "abs", "neg", "square", "sign", "ceil", "floor", "round", "trunc", "cos", "sin", "tan", "tanh", "sinh",
            "cosh",
            "atan", "asinh", "exp", "exp2", "expm1", "sigmoid", "erf", "erfc", "frac", "deg2rad", "rad2deg",
            "reciprocal",
            "isnan", "isinf", "isfinite", "logical_not", "positive", "relu", "nan_to_num",
        )
    },
    **{name: (getattr(torch, name), (positive(3, 4),)) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")},
    **{name: (getattr(torch, name), (unit(3, 4),)) for name in ("acos", "asin", "atanh")},
    "acosh": (torch.acosh, (positive(3, 4) + 1,)),
    "sqrt of integers": (torch.sqrt, (ints(3, 4),)),
    "round to decimals": (lambda x: torch.round(x, decimals=1), X),
    "ceil of integers": (torch.ceil, (ints(3, 4),)),
    "bitwise_not": (torch.bitwise_not, (ints(3, 4),)),
    "nan_to_num of nan": (lambda x: torch.nan_to_num(x / 0.0 * x.sign()), (torch.tensor([0.0, 1.0, -1.0]),)),
    "astype": (lambda x: x.to(torch.int32), X),
    "type_as": (lambda x, y: x.type_as(y), (f(3), ints(3))),
    "expm1 near 0": (torch.expm1, (f(3, 4) * 1e-4,)),
    **{
        name: (getattr(F, name), X)
        for name in (
            "relu6", "silu", "gelu", "selu", "elu", "celu", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish",
            "softplus",
            "mish", "logsigmoid", "softsign", "hardshrink", "softshrink", "tanhshrink",
        )
    },
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "elu with alpha": (lambda x: F.elu(x, 0.7), X),
    "hardtanh of a range": (lambda x: F.hardtanh(x, -0.5, 0.7), X),
    "threshold": (lambda x: F.threshold(x, 0.3, 7.0), X),
    "logit": (lambda x: torch.logit(x, 1e-3), (positive(3, 4) / 3,)),
    "prelu": (F.prelu, (f(2, 3, 4), f(3))),
    "prelu of one slope": (F.prelu, (f(2, 3, 4), f(1))),
    "glu": (F.glu, (f(3, 4),)),
    "softmax": (lambda x: F.softmax(x, 1), X),
    "softmax to a type": (lambda x: F.softmax(x, -1, dtype=torch.float64), X),
    "log_softmax": (lambda x: F.log_softmax(x, 0), X),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), X),
    "clone": (lambda x: x.clone().contiguous().detach(), X),
}  # fmt: skip

AB = (f(3, 4), f(4) + 0.3)
II = (ints(3, 4, low=-7, high=7), ints(4, low=1, high=4))
BINARY: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        name: (getattr(torch, name), AB)
        for name in (
            "add", "sub", "mul", "div", "maximum", "minimum", "atan2", "hypot", "logaddexp", "remainder", "fmod", "eq",
            "ne",
            "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "floor_divide", "isclose",
        )
    },
    **{
        f"{name} of integers": (getattr(torch, name), II)
        for name in (
            "add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor",
            "bitwise_left_shift", "maximum",
        )
    },
    "add with alpha": (lambda a, b: torch.add(a, b, alpha=2.5), AB),
    "rsub": (lambda a: 1.5 - a, X),
    "rsub with alpha": (lambda a, b: torch.rsub(a, b, alpha=2), AB),
    "integer plus fraction": (lambda a: a + 1.5, (ints(3, 4),)),
    "bool plus integer": (lambda a: a + 1, (bools(3, 4),)),
    "or of bools": (lambda a, b: a | b, (bools(3, 4), bools(4))),
    "add of bools": (torch.add, (bools(3, 4), bools(4))),
    "half and float": (torch.add, (f(3).half(), f(3))),
    "scalar tensor keeps the type": (lambda a, b: a * b, (f(3).half(), torch.tensor(2.0))),
    "integers and a bool": (torch.mul, (ints(3), bools(3))),
    "eq of bools": (torch.eq, (bools(3, 4), bools(4))),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), II),
    "div trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), II),
    "div trunc of floats": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), AB),
    "pow of tensors": (torch.pow, (positive(3, 4), f(4))),
    "base to a tensor": (lambda b: 2.0**b, X),
    **{f"pow {p}": (lambda a, p=p: a**p, X) for p in (0, 1, 2, 3, 4, 5, -1, -2)},
    **{f"pow {p}": (lambda a, p=p: a**p, (positive(3, 4),)) for p in (0.5, -0.5, 1.7)},
    "pow of integers": (lambda a: a**3, (ints(3, 4),)),
    "where": (torch.where, (bools(3, 4), f(3, 4), f(4))),
    "where with numbers": (lambda c: torch.where(c, 1.0, -2.0), (bools(3, 4),)),
    "where with one number": (lambda c, a: torch.where(c, a, 0), (bools(3, 4), f(3, 4))),
    "masked_fill": (lambda a, m: a.masked_fill(m, -3.0), (f(3, 4), bools(4))),
    "clamp": (lambda a: a.clamp(-0.5, 0.5), X),
    "clamp from below": (lambda a: a.clamp(min=0), X),
    "clamp by tensors": (lambda a, b: torch.clamp(a, max=b), AB),
    "clamp_min": (lambda a: torch.clamp_min(a, 0.2), X),
    "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.5), (f(3, 4), f(4), f(3, 1))),
    "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), (f(3, 4), f(4), positive(3, 1))),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), (f(3, 4), f(3, 4, ))),
}  # fmt: skip

M = (f(2, 3, 4),)
MOVEMENT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "view": (lambda x: x.view(6, -1), M),
    "reshape": (lambda x: x.reshape(4, 6), M),
    "flatten": (lambda x: x.flatten(1), M),
    "unflatten": (lambda x: x.unflatten(2, (2, 2)), M),
    "squeeze": (lambda x: x.squeeze(), (f(1, 3, 1),)),
    "squeeze of an axis": (lambda x: x.squeeze(0), (f(1, 3, 1),)),
    "unsqueeze": (lambda x: x.unsqueeze(-1), M),
    "permute": (lambda x: x.permute(2, 0, -2), M),
    "transpose": (lambda x: x.transpose(0, -1), M),
    "t": (lambda x: x.t(), X),
    "mT": (lambda x: x.mT, M),
    "movedim": (lambda x: x.movedim(0, -1), M),
    "expand": (lambda x: x.expand(2, 3, -1), (f(3, 1),)),
    "expand_as": (lambda x, y: x.expand_as(y), (f(3, 1), f(2, 3, 4))),
    "repeat": (lambda x: x.repeat(2, 1, 3), X),
    "tile": (lambda x: x.tile(2), X),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), X),
    "cat": (lambda x, y: torch.cat([x, y], 1), (f(2, 3), f(2, 4))),
    "cat of types": (lambda x, y: torch.cat([x, y], 1), (f(2, 3), ints(2, 4))),
    "stack": (lambda x, y: torch.stack([x, y], -1), (f(2, 3), f(2, 3))),
    "hstack": (lambda x, y: torch.hstack([x, y]), (f(3), f(3))),
    "vstack": (lambda x, y: torch.vstack([x, y]), (f(3), f(3))),
    "split": (lambda x: torch.split(x, 3, -1), M),
    "split of sizes": (lambda x: torch.split(x, [1, 3], 2), M),
    "chunk": (lambda x: torch.chunk(x, 2, 1), M),
    "unbind": (lambda x: torch.unbind(x, 1), M),
    "slice": (lambda x: x[:, 1:, :-1], M),
    "slice with a step": (lambda x: x[..., ::2], M),
    "slice beyond the end": (lambda x: x[:, :100], M),
    "select": (lambda x: x[:, -1], M),
    "narrow": (lambda x: x.narrow(2, 1, 2), M),
    "flip": (lambda x: x.flip(0, 2), M),
    "roll": (lambda x: x.roll((1, -2), (1, 2)), M),
    "roll of all": (lambda x: x.roll(2), M),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (f(1, 8, 2, 3),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (f(1, 2, 4, 6),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (f(1, 4, 2, 3),)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), M),
    "pad by less": (lambda x: F.pad(x, (-1, 2)), M),
    "pad by reflection": (lambda x: F.pad(x, (1, 2), mode="reflect"), M),
    "pad by repetition": (lambda x: F.pad(x, (1, 2), mode="replicate"), M),
    "diff": (lambda x: torch.diff(x, dim=1), M),
    "diff with a start": (lambda x, y: torch.diff(x, prepend=y), (ints(2, 4), ints(2, 1))),
    "diagonal": (lambda x: torch.diagonal(x, 1, 1, 2), M),
    "tril": (lambda x: torch.tril(x, 1), M),
    "triu": (torch.triu, M),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), (f(3), f(2))),
    "copy in place": (lambda x, y: torch.zeros(2, 3).copy_(x) + y, (f(3), f(2, 3))),
}

CREATION: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arange": (lambda x: x + torch.arange(4), X),
    "arange with a step": (lambda x: x + torch.arange(1, 9, 2), X),
    "arange of fractions": (lambda x: x + torch.arange(0, 1, 0.25), X),
    "zeros": (lambda x: x + torch.zeros(4), X),
    "ones_like": (lambda x: x + torch.ones_like(x), X),
    "full": (lambda x: x + torch.full((3, 1), 2.5), X),
    "new_full": (lambda x: x.new_full((2,), 3.0), X),
    "new_zeros": (lambda x: x.new_zeros(2, 2), X),
    "linspace": (lambda x: x + torch.linspace(0, 1, 4), X),
    "eye": (lambda x: x + torch.eye(3, 4), X),
    "scalar": (lambda x: x + torch.tensor(2.0), X),
    "one_hot": (lambda x: F.one_hot(x, 5), (ints(3),)),
    "zero in place": (lambda x: (x + 1).zero_(), X),
    "fill in place": (lambda x: (x + 1).fill_(2.0), X),
}

REDUCTION: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sum": (torch.sum, M),
    "sum of an axis": (lambda x: x.sum(1), M),
    "sum of axes": (lambda x: x.sum((0, -1), keepdim=True), M),
    "sum of integers": (torch.sum, (ints(3).int(),)),
    "mean": (lambda x: x.mean((1, 2)), M),
    "mean to a type": (lambda x: x.mean(1, dtype=torch.float64), M),
    "prod": (lambda x: x.prod(1), M),
    "amax": (lambda x: x.amax(1), M),
    "amin": (lambda x: x.amin((0, 1)), M),
    "max": (torch.max, M),
    "min": (torch.min, M),
    "max of an axis": (lambda x: tuple(x.max(1)), M),
    "min of an axis": (lambda x: tuple(x.min(-1, keepdim=True)), M),
    "argmax": (torch.argmax, M),
    "argmin of an axis": (lambda x: x.argmin(1, keepdim=True), M),
    "any": (lambda x: (x > 1.9).any(1), M),
    "all": (lambda x: torch.all(x > -5), M),
    "count_nonzero": (lambda x: torch.count_nonzero(x, 1), (ints(3, 4),)),
    "var": (lambda x: x.var(1), M),
    "var without correction": (lambda x: x.var((0, 1), unbiased=False), M),
    "std": (lambda x: x.std(-1, keepdim=True), M),
    "var_mean": (lambda x: torch.var_mean(x, 1), M),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), M),
    "norm": (lambda x: x.norm(dim=1), M),
    "norm of order 1": (lambda x: torch.linalg.vector_norm(x, 1, 1), M),
    "norm of order 3": (lambda x: torch.linalg.vector_norm(x, 3, 1), M),
    "norm of order inf": (lambda x: torch.linalg.vector_norm(x, float("inf"), 1), M),
    "normalize": (lambda x: F.normalize(x, dim=1), M),
    "cumsum": (lambda x: x.cumsum(1), M),
    "cumsum of bools": (lambda x: x.cumsum(1), (bools(2, 3),)),
    "cumprod": (lambda x: x.cumprod(0), M),
    "sort": (lambda x: tuple(x.sort(1)), M),
    "argsort": (lambda x: x.argsort(-1, descending=True), M),
    "topk": (lambda x: tuple(x.topk(2, -1)), M),
    "median": (lambda x: tuple(x.median(1)), M),
    "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), M),
}

LINEAR: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "linear": (F.linear, (f(2, 3, 4), f(5, 4), f(5))),
    "linear without bias": (F.linear, (f(3, 4), f(5, 4))),
    "mm": (torch.mm, (f(3, 4), f(4, 5))),
    "bmm": (torch.bmm, (f(2, 3, 4), f(2, 4, 5))),
    "matmul": (torch.matmul, (f(2, 1, 3, 4), f(5, 4, 2))),
    "matmul of vectors": (torch.matmul, (f(4), f(4, 1)[:, 0])),
    "mv": (torch.mv, (f(3, 4), f(4))),
    "dot": (torch.dot, (f(4), f(4))),
    "outer": (torch.outer, (f(3), f(4))),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2.0), (f(5), f(3, 4), f(4, 5))),
    "baddbmm": (torch.baddbmm, (f(2, 3, 5), f(2, 3, 4), f(2, 4, 5))),
    "einsum": (lambda a, b: torch.einsum("bij, bjk -> bki", a, b), (f(2, 3, 4), f(2, 4, 5))),
}

I1, I2, I3 = f(1, 4, 9), f(1, 4, 9, 8), f(1, 2, 5, 6, 4)
WINDOWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 1), (I1, f(6, 4, 3), f(6))),
    "conv2d": (lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0)), (I2, f(6, 4, 3, 3))),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=2, dilation=2), (I2, f(6, 2, 3, 3))),
    "conv2d, same size": (lambda x, w: F.conv2d(x, w, padding="same"), (I2, f(6, 4, 3, 2))),
    "conv2d without a batch": (lambda x, w, b: F.conv2d(x, w, b), (I2[0], f(6, 4, 3, 3), f(6))),
    "conv3d": (lambda x, w, b: F.conv3d(x, w, b, padding=1), (I3, f(3, 2, 3, 3, 3), f(3))),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1), (I1, f(4, 3, 3))),
    "conv_transpose2d": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), (I2, f(4, 3, 3, 3), f(3))
    ),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2), (I1,)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (I2,)),
    "max_pool2d, rounded up": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (I2,)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (I3,)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 1, 1), (I1,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (I2,)),
    "avg_pool2d of what is there": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (I2,)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (I3,)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4), (I1,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), (I2,)),
    "adaptive_avg_pool2d of one": (lambda x: F.adaptive_avg_pool2d(x, (1, None)), (I2,)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 4)), (I2,)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (I2,)),
    "nearest in 1d": (lambda x: F.interpolate(x, size=5), (I1,)),
    "bilinear": (lambda x: F.interpolate(x, size=(5, 11), mode="bilinear"), (I2,)),
    "bilinear with corners": (lambda x: F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True), (I2,)),
    "bicubic": (lambda x: F.interpolate(x, size=(12, 12), mode="bicubic"), (I2,)),
    "trilinear": (lambda x: F.interpolate(x, size=(4, 7, 5), mode="trilinear"), (I3,)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (I2, unit(1, 3, 4, 2))),
    "grid_sample at borders": (
        lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), (I2, f(1, 3, 4, 2))
    ),
}  # fmt: skip

W, B = f(4) + 1.5, f(4)
NORMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "batch_norm": (lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), (I2, f(4), positive(4), W, B)),
    "batch_norm without weights": (lambda x, m, v: F.batch_norm(x, m, v), (I2, f(4), positive(4))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (f(2, 3, 4), W, B)),
    "layer_norm without weights": (lambda x: F.layer_norm(x, (3, 4)), M),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), (f(2, 3, 4), W)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (I2, W, B)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (I2, W, B)),
}

def _column(x: Any, places: Any, new: Any) -> Any:
    y = x.clone()
    y[:, places] = new
    return y


Q, K, V = f(1, 4, 5, 8), f(1, 4, 6, 8) + 0.1, f(1, 4, 6, 8)
SEES = bools(5, 6)
SEES[0], SEES[1] = True, False
ATTENTION: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "attention": (F.scaled_dot_product_attention, (Q, K, V)),
    "causal attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (K, K, V)),
    "attention with a scale": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), (Q, K, V)),
    "attention with a bias": (F.scaled_dot_product_attention, (Q, K, V, f(5, 6))),
    "attention with a mask": (F.scaled_dot_product_attention, (Q, K, V, SEES)),
    "attention of three dimensions": (F.scaled_dot_product_attention, (Q[0], K[0], V[0])),
    "attention of fewer heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), (Q, K[:, :2], V[:, :2])
    ),
}  # fmt: skip

D = f(5, 4)
INDEXING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "embedding": (F.embedding, (ints(2, 3), D)),
    "index_select": (lambda x, i: x.index_select(1, i), (D, ints(2, high=4))),
    "gather": (lambda x, i: x.gather(0, i), (D, ints(2, 4))),
    "index": (lambda x, i: x[i], (D, ints(3))),
    "index from the end": (lambda x, i: x[i], (D, ints(3) - 5)),
    "index of two": (lambda x, i, j: x[i, j], (D, ints(3), ints(3, high=4))),
    "index of the last two": (lambda x, i, j: x[:, i, j], (f(2, 5, 4), ints(3), ints(3, high=4))),
    "index of two apart": (lambda x, i, j: x[i, :, j], (f(5, 2, 4), ints(3), ints(3, high=4))),
    "index beside a slice": (lambda x, i: x[1:, i], (D, ints(3, high=4))),
    "scatter": (lambda x, i, s: x.scatter(0, i, s), (D, torch.tensor([[0, 1, 2, 3]]), f(1, 4))),
    "scatter of a number": (lambda x, i: x.scatter(0, i, 2.0), (D, torch.tensor([[0, 1, 2, 3]]))),
    "scatter_add": (lambda x, i, s: x.scatter_add(0, i, s), (D, ints(2, 4), f(2, 4))),
    "scatter_reduce": (lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), (D, ints(2, 4), f(2, 4))),
    "index_put": (lambda x, i, s: x.index_put((i,), s), (D, torch.tensor([3, 1]), f(2, 4))),
    "index_put of a column": (_column, (D, torch.tensor([3, 1]), f(5, 2))),
    "index_put by a mask": (lambda x, m: x.index_put((m,), torch.tensor(0.0)), (D, bools(5, 4))),
    "index_add": (lambda x, i, s: x.index_add(1, i, s), (D, torch.tensor([3, 1]), f(5, 2))),
    "index_copy": (lambda x, i, s: x.index_copy(0, i, s), (D, torch.tensor([3, 1]), f(2, 4))),
    "index_fill": (lambda x, i: x.index_fill(1, i, 2.0), (D, torch.tensor([3, 1]))),
    "slice_scatter": (lambda x, s: x.slice_scatter(s, 0, 1, 5, 2), (D, f(2, 4))),
    "select_scatter": (lambda x, s: x.select_scatter(s, 1, -1), (D, f(5))),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (D, ints(5, 2, high=4))),
    "assignment to a slice": (lambda x, s: _assigned(x, s), (D, f(2, 4))),
}


def _assigned(x: Any, s: Any) -> Any:
    y = x.clone()
    y[1:3] = s
    y[:, 0] += 1
    return y


FAMILIES = {
    "unary": UNARY, "binary": BINARY, "movement": MOVEMENT, "creation": CREATION, "reduction": REDUCTION,
    "linear": LINEAR,
    "windows": WINDOWS, "norms": NORMS, "attention": ATTENTION, "indexing": INDEXING,
}  # fmt: skip
CASES = [pytest.param(*case, id=name) for family in FAMILIES.values() for name, case in family.items()]


@pytest.mark.parametrize(("function", "inputs"), CASES)
def test_an_operator_agrees_with_torch(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    half = any(x.dtype == torch.float16 for x in inputs)
    check(function, inputs, rtol=2e-3 if half else 2e-5, atol=2e-3 if half else 2e-5)


@pytest.mark.parametrize(
    ("name", "operators"),
    [("attention with a mask", ["relax.nn.attention_bias"]), ("layer_norm", ["relax.nn.layer_norm"])],
)
def test_attention_and_norms_are_kept_whole(name: str, operators: list[str]) -> None:
    function, inputs = (ATTENTION | NORMS)[name]
    text = imported(function, inputs).script()
    assert all(f"R.{operator.removeprefix('relax.')}(" in text for operator in operators)
