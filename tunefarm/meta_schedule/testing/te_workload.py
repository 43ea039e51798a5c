"""Operators of known networks as te tensors, the inputs and the result of each.

`create_te_workload` by short names.

Channels are last unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.tir.nodes import PrimExpr, PrimFunc
from tunefarm import te, tir, topi
from tunefarm.topi.utils import get_const_tuple
from tuner.errors import TuningError

__all__ = [
    "CONFIGS", "batch_matmul_nkkm", "conv1d_nlc", "conv2d_capsule_nhwijc", "conv2d_nchw", "conv2d_nchw_bias_bn_relu",
    "conv2d_nhwc", "conv2d_nhwc_bn_relu", "conv2d_nhwc_without_layout_rewrite", "conv2d_transpose_nhwc",
    "conv3d_ndhwc", "create_te_workload", "depthwise_conv2d_nhwc", "matmul", "matmul_relu", "max_pool2d_nchw",
    "norm_bmn", "softmax_mn", "transpose_batch_matmul",
]  # fmt: skip

Tensors = tuple[te.Tensor, ...]


# --- products of matrices --------------------------------------------------------------------------------------


def matmul(n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32") -> Tensors:
    """Multiply (n, k) by (k, m)."""
    a = te.placeholder((n, k), in_dtype, "A")
    b = te.placeholder((k, m), in_dtype, "B")
    axis = te.reduce_axis((0, k), "k")
    c = te.compute((n, m), lambda i, j: te.sum(_as(a[i, axis], out_dtype) * _as(b[axis, j], out_dtype), axis), name="C")
    return a, b, c


def matmul_relu(n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32") -> Tensors:
    """Multiply (n, k) by (k, m); negative results become 0."""
    a, b, c = matmul(n, m, k, in_dtype, out_dtype)
    return a, b, topi.nn.relu(c)


def batch_matmul_nkkm(B: int, N: int, M: int, K: int, in_dtype: str = "float32", out_dtype: str = "float32") -> Tensors:
    """Multiply `B` pairs of matrices."""
    x = te.placeholder((B, N, K), in_dtype, "X")
    y = te.placeholder((B, K, M), in_dtype, "Y")
    k = te.reduce_axis((0, K), "k")

    def element(b: PrimExpr, i: PrimExpr, j: PrimExpr) -> Any:
        return te.sum(_as(x[b, i, k], out_dtype) * _as(y[b, k, j], out_dtype), k)

    return x, y, te.compute((B, N, M), element, name="Z")


def transpose_batch_matmul(
    batch: int, seq_len: int, n_head: int, n_dim: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    """Multiply each head's queries by its values, as attention does."""
    query = te.placeholder((batch, seq_len, n_head, n_dim), in_dtype, "query")
    value = te.placeholder((batch, seq_len, n_head, n_dim), in_dtype, "value")
    shape = (batch, n_head, seq_len, n_dim)
    query_t = te.compute(shape, lambda b, h, s, d: query[b, s, h, d], name="query_T")
    shape = (batch, n_head, n_dim, seq_len)
    value_t = te.compute(shape, lambda b, h, d, s: value[b, s, h, d], name="value_T")
    k = te.reduce_axis((0, n_dim), "k")

    def element(b: PrimExpr, h: PrimExpr, i: PrimExpr, j: PrimExpr) -> Any:
        return te.sum(_as(query_t[b, h, i, k], out_dtype) * _as(value_t[b, h, k, j], out_dtype), k)

    return query, value, te.compute((batch, n_head, seq_len, seq_len), element, name="C")


# --- convolutions ----------------------------------------------------------------------------------------------


def conv1d_nlc(
    N: int, L: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0, dilation: int = 1,
    groups: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve sequences."""
    geometry = (kernel_size, stride, padding, dilation, groups)
    return _conv("conv1d_nlc", "l", N, (L,), CI, CO, geometry, in_dtype, out_dtype)


def conv2d_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0, dilation: int = 1,
    groups: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve images."""
    geometry = (kernel_size, stride, padding, dilation, groups)
    return _conv("conv2d_nhwc", "hw", N, (H, W), CI, CO, geometry, in_dtype, out_dtype)


def conv3d_ndhwc(
    N: int, D: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, groups: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve volumes."""
    geometry = (kernel_size, stride, padding, dilation, groups)
    return _conv("conv3d_ndhwc", "dhw", N, (D, H, W), CI, CO, geometry, in_dtype, out_dtype)


def depthwise_conv2d_nhwc(
    N: int, H: int, W: int, C: int, kernel_size: int, stride: int = 1, padding: int = 0, dilation: int = 1,
    factor: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve each channel of images by `factor` filters of its own."""
    data = te.placeholder((N, H, W, C), in_dtype, "placeholder")
    weight = te.placeholder((factor, kernel_size, kernel_size, C), in_dtype, "placeholder")
    padded = _padded(data, 2, padding)
    rh, rw = te.reduce_axis((0, kernel_size), "rh"), te.reduce_axis((0, kernel_size), "rw")
    height, width = (_extent(size, kernel_size, stride, padding, dilation) for size in (H, W))

    def element(n: PrimExpr, h: PrimExpr, w: PrimExpr, c: PrimExpr) -> Any:
        place = (h * stride + rh * dilation, w * stride + rw * dilation)
        read = padded[n, place[0], place[1], tir.floordiv(c, factor)]
        weighed = weight[tir.floormod(c, factor), rh, rw, tir.floordiv(c, factor)]
        return te.sum(_as(read, out_dtype) * _as(weighed, out_dtype), [rh, rw])

    made = te.compute((N, height, width, C * factor), element, name="depth_conv2d_nhwc")
    return data, weight, made


def conv2d_transpose_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0,
    in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Take the transposed convolution of images, which makes them larger."""
    data = te.placeholder((N, H, W, CI), in_dtype, "inputs")
    weight = te.placeholder((kernel_size, kernel_size, CI, CO), in_dtype, "weight")
    border = kernel_size - 1 - padding
    before = -(-border // stride)
    shift = before * stride - border  # of the first result within the first steps
    padded = _padded(data, 2, before)
    rh, rw = te.reduce_axis((0, kernel_size), "rh"), te.reduce_axis((0, kernel_size), "rw")
    rc = te.reduce_axis((0, CI), "rc")

    def element(n: PrimExpr, h: PrimExpr, w: PrimExpr, co: PrimExpr) -> Any:
        y, x = h + rh + shift, w + rw + shift
        read = padded[n, tir.floordiv(y, stride), tir.floordiv(x, stride), rc]
        hits = te.all(tir.floormod(y, stride).equal(0), tir.floormod(x, stride).equal(0))
        value = te.if_then_else(hits, read, tir.const(0, in_dtype))
        weighed = weight[kernel_size - 1 - rh, kernel_size - 1 - rw, rc, co]
        return te.sum(_as(value, out_dtype) * _as(weighed, out_dtype), [rh, rw, rc])

    shape = (N, *((size - 1) * stride + kernel_size - 2 * padding for size in (H, W)), CO)
    return data, weight, te.compute(shape, element, name="conv2d_transpose_nhwc")


def conv2d_capsule_nhwijc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0,
    capsule_size: int = 4, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve images of small matrices."""
    size = capsule_size
    data = te.placeholder((N, H, W, size, size, CI), in_dtype, "inputs")
    weight = te.placeholder((kernel_size, kernel_size, size, size, CI, CO), in_dtype, "weight")
    padded = _padded(data, 2, padding)
    rh, rw = te.reduce_axis((0, kernel_size), "rh"), te.reduce_axis((0, kernel_size), "rw")
    cap_k, rc = te.reduce_axis((0, size), "cap_k"), te.reduce_axis((0, CI), "rc")

    def element(n: Any, h: Any, w: Any, cap_i: Any, cap_j: Any, co: Any) -> Any:
        read = padded[n, h * stride + rh, w * stride + rw, cap_i, cap_k, rc]
        weighed = weight[rh, rw, cap_k, cap_j, rc, co]
        return te.sum(_as(read, out_dtype) * _as(weighed, out_dtype), [rh, rw, cap_k, rc])

    height, width = (_extent(each, kernel_size, stride, padding, 1) for each in (H, W))
    made = te.compute((N, height, width, size, size, CO), element, name="conv2d_capsule_nhwijc")
    return data, weight, made


def conv2d_nhwc_without_layout_rewrite(
    Input: te.Tensor, Filter: te.Tensor, stride: int, padding: int, dilation: int, out_dtype: str = "float32"
) -> te.Tensor:
    """Convolve images by filters that keep their layout."""
    return _conv2d_nhwc(Input, Filter, stride, padding, dilation, out_dtype)


def conv2d_nhwc_bn_relu(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int, dilation: int = 1,
    in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve images, then add a bias, normalise, and cut negative values off."""
    data = te.placeholder((N, H, W, CI), in_dtype, "data")
    kernel = te.placeholder((kernel_size, kernel_size, CI, CO), in_dtype, "kernel")
    made = _conv2d_nhwc(data, kernel, strides, padding, dilation, out_dtype)
    bias, scale, offset = (te.placeholder((CO,), out_dtype, name) for name in ("bias", "bn_scale", "bn_offset"))
    return data, kernel, bias, offset, scale, _normalised(made, lambda part, c: part[c[3]], bias, scale, offset)


def conv2d_nchw(
    n: int, h: int, w: int, ci: int, co: int, kh: int, kw: int, stride: int, padding: int, dilation: int = 1,
    in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve images whose channels come first."""
    x = te.placeholder((n, ci, h, w), in_dtype, "X")
    weight = te.placeholder((co, ci, kh, kw), in_dtype, "W")
    return x, weight, topi.nn.conv2d_nchw(x, weight, stride, padding, dilation, out_dtype)


def conv2d_nchw_bias_bn_relu(
    n: int, h: int, w: int, ci: int, co: int, kh: int, kw: int, stride: int, padding: int, dilation: int = 1,
    in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """Convolve images whose channels come first, then add a bias, normalise, and cut negative values off."""
    x, weight, made = conv2d_nchw(n, h, w, ci, co, kh, kw, stride, padding, dilation, in_dtype, out_dtype)
    bias, scale, offset = (te.placeholder((co, 1, 1), out_dtype, name) for name in ("B", "bn_scale", "bn_offset"))
    return x, weight, bias, scale, offset, _normalised(made, lambda part, c: part[c[1], 0, 0], bias, scale, offset)


# --- others ----------------------------------------------------------------------------------------------------


def max_pool2d_nchw(n: int, h: int, w: int, ci: int, padding: int) -> Tensors:
    """Take the largest value of each 2x2 window, a step of 1 apart."""
    x = te.placeholder((n, ci, h, w), name="X")
    return x, topi.nn.pool2d(x, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")


def norm_bmn(B: int, M: int, N: int) -> Tensors:
    """Take the root of each matrix's sum of squares."""
    a = te.placeholder((B, M, N), name="A")
    i, j = te.reduce_axis((0, M), "i"), te.reduce_axis((0, N), "j")
    c = te.compute((B,), lambda b: te.sum(a[b, i, j] * a[b, i, j], [i, j]), name="C")
    return a, te.compute((B,), lambda b: te.sqrt(c[b]), name="D")


def softmax_mn(m: int, n: int) -> Tensors:
    """Take the softmax of each row."""
    a = te.placeholder((m, n), name="A")
    return a, topi.nn.softmax(a, axis=1)


CONFIGS: dict[str, tuple[Callable[..., Tensors], list[tuple[int, ...]]]] = {
    "C1D": (conv1d_nlc, [
        (1, 256, 64, 128, 3, 2, 1), (1, 128, 128, 256, 1, 2, 0), (1, 64, 256, 256, 5, 1, 2), (1, 32, 512, 512, 3, 1, 1),
    ]),
    "C2D": (conv2d_nhwc, [
        (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 64, 1, 1, 0), (1, 14, 14, 256, 256, 3, 1, 1),
        (1, 7, 7, 512, 512, 3, 1, 1),
    ]),
    "C3D": (conv3d_ndhwc, [
        (1, 16, 224, 224, 3, 64, 7, 2, 3), (1, 16, 56, 56, 64, 64, 1, 1, 0), (1, 16, 14, 14, 256, 256, 3, 1, 1),
        (1, 16, 7, 7, 512, 512, 3, 1, 1),
    ]),
    "GMM": (batch_matmul_nkkm, [(1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)]),
    "GRP": (conv2d_nhwc, [
        (1, 56, 56, 64, 128, 3, 2, 1, 1, 4), (1, 56, 56, 64, 64, 1, 1, 0, 1, 4), (1, 14, 14, 256, 256, 3, 1, 1, 1, 4),
        (1, 7, 7, 512, 512, 3, 1, 1, 1, 4),
    ]),
    "DIL": (conv2d_nhwc, [
        (1, 224, 224, 3, 64, 7, 2, 3, 2), (1, 56, 56, 64, 64, 1, 1, 0, 2), (1, 14, 14, 256, 256, 3, 1, 1, 2),
        (1, 7, 7, 512, 512, 3, 1, 1, 2),
    ]),
    "DEP": (depthwise_conv2d_nhwc, [
        (1, 112, 112, 32, 3, 1, 1), (1, 112, 112, 64, 3, 2, 1), (1, 14, 14, 512, 3, 2, 1), (1, 7, 7, 1024, 3, 1, 1),
    ]),
    "T2D": (conv2d_transpose_nhwc, [
        (1, 4, 4, 512, 256, 4, 2, 1), (1, 8, 8, 256, 128, 4, 2, 1), (1, 16, 16, 128, 64, 4, 2, 1),
        (1, 32, 32, 64, 3, 4, 2, 1),
    ]),
    "CAP": (conv2d_capsule_nhwijc, [
        (1, 16, 16, 32, 32, 3, 2, 1), (1, 8, 8, 32, 32, 3, 1, 1), (1, 16, 16, 8, 16, 3, 2, 1),
        (1, 8, 8, 16, 16, 3, 1, 1),
    ]),
    "NRM": (norm_bmn, [(1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 1024)]),
    "SFM": (softmax_mn, [(256, 256), (512, 512), (1024, 1024), (2048, 2048)]),
    "CBR": (conv2d_nhwc_bn_relu, [
        (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 128, 3, 2, 1), (1, 28, 28, 128, 256, 1, 2, 0),
        (1, 7, 7, 512, 512, 3, 1, 1),
    ]),
    "TBG": (transpose_batch_matmul, [(1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)]),
}  # fmt: skip
"""An operator and its sizes in several networks, by a short name."""


def create_te_workload(name: str, idx: int) -> PrimFunc:
    """Return the function of a workload of `CONFIGS`: the `idx`th sizes of an operator.
    Raises TuningError."""
    if name not in CONFIGS:
        raise TuningError(f"no workload {name!r}", hint=f"there are {', '.join(CONFIGS)}")
    workload, sizes = CONFIGS[name]
    if not 0 <= idx < len(sizes):
        raise TuningError(f"{name} has no sizes {idx}", hint=f"there are 0 to {len(sizes) - 1}")
    return te.create_prim_func(workload(*sizes[idx]))


# --- parts -----------------------------------------------------------------------------------------------------


def _as(value: Any, dtype: str) -> PrimExpr:
    cast: PrimExpr = value.astype(dtype)
    return cast


def _padded(data: te.Tensor, spatial: int, padding: int, name: str = "PadInput") -> te.Tensor:
    """Zeros around the dimensions after the first."""
    around = [0, *[padding] * spatial, *[0] * (len(data.shape) - spatial - 1)]
    return topi.nn.pad(data, around, around, name=name)


def _extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _conv(
    name: str, axes: str, batch: int, sizes: Sequence[int], inputs: int, outputs: int,
    geometry: tuple[int, int, int, int, int], in_dtype: str, out_dtype: str,
) -> Tensors:  # fmt: skip
    """Convolve along any number of dimensions, whose letters are `axes`."""
    kernel, stride, padding, dilation, groups = geometry
    count = len(sizes)
    data = te.placeholder((batch, *sizes, inputs), in_dtype, "inputs")
    weight = te.placeholder((*[kernel] * count, inputs // groups, outputs), in_dtype, "weight")
    padded = _padded(data, count, padding)
    reduced = [te.reduce_axis((0, kernel), f"r{letter}") for letter in axes]
    rc = te.reduce_axis((0, inputs // groups), "rc")

    def element(*place: Any) -> Any:
        n, *inner, co = place
        along = [at * stride + r * dilation for at, r in zip(inner, reduced)]
        channel = tir.floordiv(co, outputs // groups) * (inputs // groups) + rc
        read, weighed = padded[(n, *along, channel)], weight[(*reduced, rc, co)]
        return te.sum(_as(read, out_dtype) * _as(weighed, out_dtype), [*reduced, rc])

    shape = (batch, *(_extent(size, kernel, stride, padding, dilation) for size in sizes), outputs)
    return data, weight, te.compute(shape, element, name=name)


def _conv2d_nhwc(
    data: te.Tensor, kernel: te.Tensor, stride: int, padding: int, dilation: int, out_dtype: str
) -> te.Tensor:
    batch, height, width, inputs = get_const_tuple(data.shape)
    size, _, _, outputs = get_const_tuple(kernel.shape)
    padded = _padded(data, 2, padding, "PaddedInput")
    ry, rx = te.reduce_axis((0, size), "ry"), te.reduce_axis((0, size), "rx")
    rc = te.reduce_axis((0, inputs), "rc")

    def element(nn: Any, yy: Any, xx: Any, ff: Any) -> Any:
        read = padded[nn, yy * stride + ry * dilation, xx * stride + rx * dilation, rc]
        return te.sum(_as(read, out_dtype) * _as(kernel[ry, rx, rc, ff], out_dtype), [ry, rx, rc])

    shape = (batch, *(_extent(each, size, stride, padding, dilation) for each in (height, width)), outputs)
    made: te.Tensor = te.compute(shape, element, name="Conv2dOutput")
    return made


def _normalised(
    data: te.Tensor,
    of_channel: Callable[[te.Tensor, tuple[Any, ...]], Any],
    bias: te.Tensor,
    scale: te.Tensor,
    offset: te.Tensor,
) -> te.Tensor:
    shape = data.shape
    biased = te.compute(shape, lambda *at: data(*at) + of_channel(bias, at), name="bias_add")
    scaled = te.compute(shape, lambda *at: biased(*at) * of_channel(scale, at), name="bn_mul")
    moved = te.compute(shape, lambda *at: scaled(*at) + of_channel(offset, at), name="bn_add")
    made: te.Tensor = topi.nn.relu(moved)
    return made
