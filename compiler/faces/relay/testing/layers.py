"""Layers: operators with variables for their weights, whose shapes the input's decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import compiler.faces.relay.translate  # noqa: F401  (fills the table)
from compiler.faces.relay.nodes import Expr, var
from compiler.faces.relay.table import OPERATORS


def call(name: str, *args: Any, **attrs: Any) -> Any:
    """A call of the operator `name`."""
    return OPERATORS[name].make(*args, **attrs)


class Net:
    """A network that grows: the value so far, and how many channels it has."""

    def __init__(self, image_shape: Sequence[int], batch_size: int, dtype: str) -> None:
        self.dtype = dtype
        self.channels = image_shape[0]
        self.data: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)

    def weight(self, name: str, *shape: int) -> Expr:
        """A variable for weights."""
        return var(name, shape=shape, dtype=self.dtype)

    def conv(
        self, name: str, channels: int, size: int, stride: int = 1, pad: int | None = None, groups: int = 1,
        bias: bool = False,
    ) -> Net:  # fmt: skip
        """A convolution with a window of size × size; `pad` defaults to what keeps the size."""
        kernel = self.weight(f"{name}_weight", channels, self.channels // groups, size, size)
        padding = size // 2 if pad is None else pad
        self.data = call(
            "nn.conv2d", self.data, kernel, strides=(stride, stride), padding=(padding, padding), groups=groups,
            channels=channels, kernel_size=(size, size),
        )  # fmt: skip
        self.channels = channels
        if bias:
            self.data = call("nn.bias_add", self.data, self.weight(f"{name}_bias", channels))
        return self

    def norm(self, name: str, epsilon: float = 1e-5, scale: bool = True) -> Net:
        """A batch norm as it is when a network is used."""
        parts = ("gamma", "beta", "moving_mean", "moving_var")
        named = [self.weight(f"{name}_{part}", self.channels) for part in parts]
        self.data = call("nn.batch_norm", self.data, *named, epsilon=epsilon, scale=scale)[0]
        return self

    def relu(self) -> Net:
        """Elements below 0 become 0."""
        self.data = call("nn.relu", self.data)
        return self

    def pool(self, kind: str, size: int, stride: int, pad: int = 0, ceil_mode: bool = False) -> Net:
        """The largest or mean elements of windows."""
        self.data = call(
            f"nn.{kind}_pool2d", self.data, pool_size=(size, size), strides=(stride, stride), padding=(pad, pad),
            ceil_mode=ceil_mode,
        )  # fmt: skip
        return self

    def dense(self, name: str, inputs: int, units: int) -> Net:
        """A product with weights, and a bias."""
        product = call("nn.dense", self.data, self.weight(f"{name}_weight", units, inputs), units=units)
        self.data = call("nn.bias_add", product, self.weight(f"{name}_bias", units))
        return self

    def head(self, classes: int, name: str = "fc") -> Net:
        """The mean of each channel, classified."""
        self.data = call("nn.batch_flatten", call("nn.global_avg_pool2d", self.data))
        self.dense(name, self.channels, classes)
        return self.softmax()

    def softmax(self) -> Net:
        """Shares that add up to 1."""
        self.data = call("nn.softmax", self.data)
        return self
