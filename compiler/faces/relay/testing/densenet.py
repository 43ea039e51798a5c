"""DenseNet (Huang et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Function, Tuple
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.testing.init import create_workload
from compiler.faces.relay.testing.layers import Net, call

_SPECS = {
    121: (64, 32, [6, 12, 24, 16]), 161: (96, 48, [6, 12, 36, 24]), 169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}  # fmt: skip


def get_net(
    densenet_size: int = 121, classes: int = 1000, batch_size: int = 4, image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:  # fmt: skip
    """The network of that many layers."""
    if densenet_size not in _SPECS:
        raise ArgumentError(f"there is no DenseNet of {densenet_size} layers", hint=f"layers: {list(_SPECS)}")
    first, growth, blocks = _SPECS[densenet_size]
    net = Net(image_shape, batch_size, dtype)
    net.conv("conv1", first, 7, 2).norm("batch1").relu().pool("max", 3, 2, 1)
    for stage, layers in enumerate(blocks):
        for layer in range(layers):
            name, data, channels = f"dense{stage}_{layer}", net.data, net.channels
            net.norm(f"{name}_bn1").relu().conv(f"{name}_conv1", 4 * growth, 1)
            net.norm(f"{name}_bn2").relu().conv(f"{name}_conv2", growth, 3)
            net.data = call("concatenate", Tuple((data, net.data)), axis=1)
            net.channels = channels + growth
        if stage < len(blocks) - 1:
            net.norm(f"t{stage}").relu().conv(f"t{stage}_conv", net.channels // 2, 1).pool("avg", 2, 2)
    net.norm("batch2").relu().head(classes, "dense")
    return Function(tuple(free_vars(net.data)), net.data)


def get_workload(
    densenet_size: int = 121, classes: int = 1000, batch_size: int = 4, image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Any:  # fmt: skip
    """The network as a module, and weights for it."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))
