"""Residual networks (He et al., "Identity Mappings in Deep Residual Networks", 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Function
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.testing.init import create_workload
from compiler.faces.relay.testing.layers import Net, call

_UNITS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3], 152: [3, 8, 36, 3]}


def _unit(net: Net, name: str, channels: int, stride: int, matches: bool, bottleneck: bool) -> None:
    kept = net.data
    net.norm(f"{name}_bn1", 2e-5).relu()
    inputs, activated = net.channels, net.data
    if bottleneck:
        net.conv(f"{name}_conv1", channels // 4, 1).norm(f"{name}_bn2", 2e-5).relu()
        net.conv(f"{name}_conv2", channels // 4, 3, stride).norm(f"{name}_bn3", 2e-5).relu()
        net.conv(f"{name}_conv3", channels, 1)
    else:
        net.conv(f"{name}_conv1", channels, 3, stride).norm(f"{name}_bn2", 2e-5).relu()
        net.conv(f"{name}_conv2", channels, 3)
    made = net.data
    if not matches:
        net.data, net.channels = activated, inputs
        kept = net.conv(f"{name}_sc", channels, 1, stride).data
    net.data, net.channels = call("add", made, kept), channels


def get_net(
    batch_size: int = 1, num_classes: int = 1000, num_layers: int = 18, image_shape: Sequence[int] = (3, 224, 224),
    layout: str = "NCHW", dtype: str = "float32", **kwargs: Any,
) -> Function:  # fmt: skip
    """A residual network of 18 to 152 layers; for pictures of at most 32 pixels one of 6 n + 2 layers."""
    if layout != "NCHW":
        raise ArgumentError(f"this network has the layout NCHW, not {layout}")
    small = image_shape[1] <= 32
    if small:
        bottleneck = num_layers >= 164
        per = (num_layers - 2) // (9 if bottleneck else 6)
        units, widths = [per] * 3, [64, 128, 256] if bottleneck else [16, 32, 64]
    elif num_layers in _UNITS:
        bottleneck = num_layers >= 50
        units = _UNITS[num_layers]
        widths = [256, 512, 1024, 2048] if bottleneck else [64, 128, 256, 512]
    else:
        raise ArgumentError(f"there is no residual network of {num_layers} layers", hint=f"layers: {list(_UNITS)}")
    net = Net(image_shape, batch_size, dtype).norm("bn_data", 2e-5, scale=False)
    if small:
        net.conv("conv0", 16, 3)
    else:
        net.conv("conv0", 64, 7, 2).norm("bn0", 2e-5).relu().pool("max", 3, 2, 1)
    for stage, (count, width) in enumerate(zip(units, widths)):
        for unit in range(count):
            stride = 2 if unit == 0 and stage else 1
            _unit(net, f"stage{stage + 1}_unit{unit + 1}", width, stride, unit > 0, bottleneck)
    net.norm("bn1", 2e-5).relu().head(num_classes, "fc1")
    return Function(tuple(free_vars(net.data)), net.data)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, num_layers: int = 18, image_shape: Sequence[int] = (3, 224, 224),
    layout: str = "NCHW", dtype: str = "float32", **kwargs: Any,
) -> Any:  # fmt: skip
    """The network as a module, and weights for it."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
