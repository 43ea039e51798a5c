"""Operators in numpy: the oracles of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "batch_matmul", "conv2d_hwcn_python", "conv2d_nchw_python", "conv2d_nhwc_python", "dense", "dilate_python",
    "log_softmax_python", "softmax_python", "transpose_python",
]  # fmt: skip

Array = np.ndarray[Any, Any]
_Size = int | Sequence[int]


def _pair(value: _Size) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def dilate_python(input_np: Array, strides: Sequence[int], dilation_value: float = 0.0) -> Array:
    """Put `strides[i] - 1` values between the elements of axis i."""
    shape = [(size - 1) * stride + 1 for size, stride in zip(input_np.shape, strides)]
    out = np.full(shape, dilation_value, input_np.dtype)
    out[tuple(slice(None, None, stride) for stride in strides)] = input_np
    return out


def _padding(padding: Any, kernel: tuple[int, int], stride: tuple[int, int], size: tuple[int, int]) -> list[int]:
    """Rows and columns of zeros: above, left, below, right."""
    if padding == "VALID":
        return [0, 0, 0, 0]
    if padding == "SAME":
        needed = [max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(size, stride, kernel)]
        return [needed[0] // 2, needed[1] // 2, needed[0] - needed[0] // 2, needed[1] - needed[1] // 2]
    if isinstance(padding, int):
        return [padding] * 4
    given = [int(p) for p in padding]
    return given * 2 if len(given) == 2 else given


def conv2d_nchw_python(a_np: Array, w_np: Array, stride: _Size, padding: Any, groups: int = 1) -> Array:
    """A convolution of images (N, C, H, W) with filters (O, C / groups, H, W)."""
    strides, kernel = _pair(stride), (w_np.shape[2], w_np.shape[3])
    top, left, bottom, right = _padding(padding, kernel, strides, (a_np.shape[2], a_np.shape[3]))
    padded = np.pad(a_np, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1]]
    given, filters = np.split(windows, groups, axis=1), np.split(w_np, groups, axis=0)
    parts = [np.einsum("nchwkl,ockl->nohw", x, w) for x, w in zip(given, filters)]
    return np.concatenate(parts, axis=1).astype(a_np.dtype)


def conv2d_nhwc_python(a_np: Array, w_np: Array, stride: _Size, padding: Any, groups: int = 1) -> Array:
    """A convolution of images (N, H, W, C) with filters (H, W, C / groups, O)."""
    images, filters = a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1)
    return conv2d_nchw_python(images, filters, stride, padding, groups).transpose(0, 2, 3, 1)


def conv2d_hwcn_python(a_np: Array, w_np: Array, stride: _Size, padding: Any) -> Array:
    """A convolution of images (H, W, C, N) with filters (H, W, C, O)."""
    images, filters = a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1)
    return conv2d_nchw_python(images, filters, stride, padding).transpose(2, 3, 1, 0)


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Softmax along an axis."""
    powers = np.exp(a_np - a_np.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """The logarithm of softmax along an axis."""
    shifted = a_np - a_np.max(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


def dense(
    x: Array, y: Array, bias: Array | None, use_bias: bool = False, use_relu: bool = False, out_dtype: str | None = None
) -> Array:
    """The product of `x` and the transposed `y`, with a bias and a ReLU if asked for."""
    dtype = x.dtype if out_dtype is None else np.dtype(out_dtype)
    out = np.dot(x.astype(dtype), y.T.astype(dtype))
    if use_bias and bias is not None:
        out = out + bias
    return np.asarray(np.maximum(out, 0) if use_relu else out)


def batch_matmul(
    x: Array, y: Array, out_dtype: str | None = None, trans_x: bool = False, trans_y: bool = True
) -> Array:
    """Products of matrices along the first axis."""
    left, right = (v.transpose(0, 2, 1) if flipped else v for v, flipped in ((x, trans_x), (y, trans_y)))
    out = np.matmul(left, right)
    return np.asarray(out if out_dtype is None else out.astype(out_dtype))


def transpose_python(a_np: Array, axes: Sequence[int] | None = None) -> Array:
    """The same elements with the axes in another order."""
    return np.transpose(a_np, axes)
