"""Layers: modules of one operator, most with parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.frontend.nn import op
from compiler.frontend.nn.module import Module
from compiler.frontend.nn.values import Dim, Parameter, Tensor


class Identity(Module):
    """Gives what it gets."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(Module):
    def forward(self, x: Tensor) -> Tensor:
        return op.relu(x)


class SiLU(Module):
    def forward(self, x: Tensor) -> Tensor:
        return op.silu(x)


class GELU(Module):
    def forward(self, x: Tensor) -> Tensor:
        return op.gelu(x)


class Linear(Module):
    """A product with the transposed weight (out, in), and a bias."""

    def __init__(
        self, in_features: int | str | Dim, out_features: int | str | Dim, bias: bool = True, dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:  # fmt: skip
        """`out_dtype`: the element type in which products are summed, and that of the result."""
        self.in_features = in_features
        self.out_features = out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        product = op.matmul(x, op.permute_dims(self.weight), self.out_dtype)
        return product if self.bias is None else product + self.bias


_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: op.conv1d, 2: op.conv2d, 3: op.conv3d}


class _Conv(Module):
    """A convolution of some number of dimensions."""

    rank: int

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        """Filters of `kernel_size`, a number or one for each dimension."""
        taps = [kernel_size] * self.rank if isinstance(kernel_size, int) else list(kernel_size)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = Parameter((out_channels, in_channels // groups, *taps), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        make = _CONVOLUTIONS[self.rank]
        return make(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1D(_Conv):
    """A convolution along one dimension, of (batch, channels, width)."""

    rank = 1


class Conv2D(_Conv):
    """A convolution of images, (batch, channels, height, width)."""

    rank = 2


class Conv3D(_Conv):
    """A convolution of volumes, (batch, channels, depth, height, width)."""

    rank = 3


class ConvTranspose1D(Module):
    """A transposed convolution along one dimension."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, padding: int = 0,
        output_padding: int = 0, dilation: int = 1, groups: int = 1, bias: bool = True, dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups
        self.weight = Parameter((in_channels, out_channels // groups, kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return op.conv1d_transpose(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.dilation, self.groups
        )


class LayerNorm(Module):
    """A normalisation over the last dimension, with weight and bias unless `elementwise_affine` is False."""

    def __init__(
        self, normalized_shape: int, eps: float | None = 1e-5, elementwise_affine: bool = True, dtype: str | None = None
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = 1e-5 if eps is None else eps
        self.weight = Parameter((normalized_shape,), dtype) if elementwise_affine else None
        self.bias = Parameter((normalized_shape,), dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """A division by the root of the mean square along `axes`, with a weight."""

    def __init__(
        self, hidden_size: int, axes: int | Sequence[int] = -1, epsilon: float = 1e-5, bias: bool = True,
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.axes = axes
        self.epsilon = epsilon
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        made = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return made if self.bias is None else made + self.bias


class GroupNorm(Module):
    """A normalisation of groups of channels."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: str | None = None
    ) -> None:
        self.num_groups = num_groups
        self.eps = eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: Sequence[int] | None = None) -> Tensor:
        return op.group_norm(x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes)


class Embedding(Module):
    """A row of a table for each number."""

    def __init__(self, num: int | str | Dim, dim: int | str | Dim, dtype: str | None = None) -> None:
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        flat: Any = op.reshape(x, [-1])
        return op.reshape(op.take(self.weight, flat, axis=0), [*x.shape, self.weight.shape[1]])
