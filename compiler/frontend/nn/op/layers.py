"""Products, convolutions, normalisations, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.errors import IRError
from compiler.frontend.nn.values import Shape, Tensor, tensor
from compiler.ir.base import RelaxExpr
from compiler.relax import op as relax_op
from compiler.relax.nodes import const
from compiler.runtime.core.dtypes import storage_dtype

Sizes = int | Sequence[int]


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) or value is None else tuple(value)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """Multiply matrices, with numpy's rules for vectors and for the dimensions before the last two."""
    return tensor(relax_op.matmul(a._expr, b._expr, out_dtype), name)


def _convolved(
    rank: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Any, dilation: Sizes,
    groups: int, layouts: tuple[str, str], name: str,
) -> Tensor:  # fmt: skip
    make: Any = {1: relax_op.nn.conv1d, 2: relax_op.nn.conv2d, 3: relax_op.nn.conv3d}[rank]
    each = [_plain(value) for value in (stride, padding, dilation)]
    strides, pads, gaps = [value if not isinstance(value, int) else (value,) * rank for value in each]
    made = tensor(make(x._expr, weight._expr, strides, pads, gaps, groups, *layouts), name)
    if bias is None:
        return made
    shape = [1] * made.ndim
    shape[layouts[0].index("C")] = -1
    return made + bias.reshape(shape)


def conv1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Any = 0, dilation: Sizes = 1,
    groups: int = 1, name: str = "conv1d",
) -> Tensor:  # fmt: skip
    """Move filters (out, in, width) along (batch, channels, width)."""
    return _convolved(1, x, weight, bias, stride, padding, dilation, groups, ("NCW", "OIW"), name)


def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Any = 0, dilation: Sizes = 1,
    groups: int = 1, data_layout: str = "NCHW", name: str = "conv2d",
) -> Tensor:  # fmt: skip
    """Move filters (out, in, height, width) over images; their layout with NHWC data is OHWI."""
    kernel = "OIHW" if data_layout == "NCHW" else "OHWI"
    return _convolved(2, x, weight, bias, stride, padding, dilation, groups, (data_layout, kernel), name)


def conv3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Any = 0, dilation: Sizes = 1,
    groups: int = 1, data_layout: str = "NCDHW", name: str = "conv3d",
) -> Tensor:  # fmt: skip
    """Move filters through volumes."""
    kernel = "OIDHW" if data_layout == "NCDHW" else "ODHWI"
    return _convolved(3, x, weight, bias, stride, padding, dilation, groups, (data_layout, kernel), name)


def conv1d_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0, output_padding: int = 0,
    dilation: int = 1, groups: int = 1, name: str = "conv1d_transpose",
) -> Tensor:  # fmt: skip
    """Add weighted filters (in, out, width) along one dimension."""
    made = relax_op.nn.conv1d_transpose(
        x._expr, weight._expr, stride, padding, output_padding, dilation, groups
    )
    result = tensor(made, name)
    return result if bias is None else result + bias.reshape([1, -1, 1])


def _weight(given: Tensor | None, shape: Sequence[Any], value: float, dtype: str) -> RelaxExpr:
    if given is not None:
        return given._expr
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) != len(shape):
        raise IRError("a normalisation without a weight needs a known size")
    return const(np.full(sizes, value, storage_dtype(dtype)), dtype)


def layer_norm(
    x: Tensor, normalized_shape: Sizes, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:  # fmt: skip
    """Normalise over the last dimensions, those of `normalized_shape`."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    gamma, beta = _weight(weight, shape, 1.0, x.dtype), _weight(bias, shape, 0.0, x.dtype)
    axes = tuple(range(-len(shape), 0))
    made = relax_op.nn.layer_norm(x._expr, gamma, beta, axes, eps, bias is not None, weight is not None)
    return tensor(made, name)


def rms_norm(
    x: Tensor, weight: Tensor, axes: Sizes = -1, epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    """Divide by the root of the mean square along `axes`, and multiply by `weight`."""
    return tensor(relax_op.nn.rms_norm(x._expr, weight._expr, _plain(axes), epsilon), name)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    channel_axis: int = 1, axes: Sequence[int] | None = None, name: str = "group_norm",
) -> Tensor:  # fmt: skip
    """Normalise groups of channels, over `axes` too: all but batch and channels unless given."""
    channels = [x.shape[channel_axis]]
    gamma, beta = _weight(weight, channels, 1.0, x.dtype), _weight(bias, channels, 0.0, x.dtype)
    others = (axis for axis in range(1, x.ndim) if axis != channel_axis % x.ndim)
    over = tuple(others if axes is None else axes)
    made = relax_op.nn.group_norm(
        x._expr, gamma, beta, num_groups, channel_axis, over, eps, bias is not None, weight is not None
    )
    return tensor(made, name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """Scale exp(x) so that its sum along `axis` is 1."""
    return tensor(relax_op.nn.softmax(x._expr, axis), name)


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0, name: str = "pad") -> Tensor:
    """Add elements around: `pad` has the amounts before and after each dimension, in turn."""
    return tensor(relax_op.nn.pad(x._expr, tuple(pad), mode, value), name)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool | None = False,
    scale: float | None = None, name: str = "scaled_dot_product_attention",
) -> Tensor:  # fmt: skip
    """Take softmax(query key^T * scale + mask) value, of (batch, length, heads, width) tensors."""
    bias = None if attn_mask is None else attn_mask._expr
    causal = "TopLeft" if is_causal else None
    return tensor(relax_op.nn.attention(query._expr, key._expr, value._expr, bias, scale, causal), name)


def interpolate(
    x: Tensor, size: Shape | None = None, scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None, name: str = "interpolate",
) -> Tensor:  # fmt: skip
    """Give images another size: `size`, or theirs times `scale_factor`.
    `mode`: "nearest", "bilinear" or "bicubic"."""
    if size is None:
        factors = [scale_factor] * 2 if isinstance(scale_factor, int | float) else list(scale_factor or (1, 1))
        size = [int(each * factor) if isinstance(each, int) else each * int(factor)
                for each, factor in zip(x.shape[2:], factors)]  # fmt: skip
    if mode.startswith("nearest"):
        how = {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    else:
        method = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
        how = {"method": method, "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel"}
    return tensor(relax_op.image.resize2d(x._expr, list(size), **how), name)
