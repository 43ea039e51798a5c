"""MobileNet (Howard et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Function
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.testing.init import create_workload
from compiler.faces.relay.testing.layers import Net

_BLOCKS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


def mobile_net(
    num_classes: int = 1000, data_shape: Sequence[int] = (1, 3, 224, 224), dtype: str = "float32", alpha: float = 1.0,
    is_shallow: bool = False, layout: str = "NCHW",
) -> Function:  # fmt: skip
    """The network; `alpha` scales its widths, and `is_shallow` leaves out the five blocks in its middle."""
    if layout != "NCHW":
        raise ArgumentError(f"this network has the layout NCHW, not {layout}")
    net = Net(data_shape[1:], data_shape[0], dtype)
    net.conv("conv_block_1_conv", int(32 * alpha), 3, 2).norm("conv_block_1_bn").relu()
    blocks = _BLOCKS[:6] + ([] if is_shallow else _BLOCKS[6:11]) + _BLOCKS[11:]
    for place, (width, stride) in enumerate(blocks, 1):
        name = f"separable_conv_block_{place}"
        net.conv(f"{name}_depthwise", net.channels, 3, stride, groups=net.channels).norm(f"{name}_bn1").relu()
        net.conv(f"{name}_conv2", int(width * alpha), 1).norm(f"{name}_bn2").relu()
    net.head(num_classes)
    return Function(tuple(free_vars(net.data)), net.data)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, image_shape: Sequence[int] = (3, 224, 224), dtype: str = "float32",
    layout: str = "NCHW",
) -> Any:  # fmt: skip
    """The network as a module, and weights for it."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
