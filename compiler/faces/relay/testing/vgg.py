"""VGG networks (Simonyan and Zisserman, 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Function
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.testing.init import create_workload
from compiler.faces.relay.testing.layers import Net, call

_LAYERS = {11: [1, 1, 2, 2, 2], 13: [2, 2, 2, 2, 2], 16: [2, 2, 3, 3, 3], 19: [2, 2, 4, 4, 4]}


def get_net(
    batch_size: int, image_shape: Sequence[int], num_classes: int, dtype: str, num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:  # fmt: skip
    """A VGG network of 11 to 19 layers."""
    if num_layers not in _LAYERS:
        raise ArgumentError(f"there is no VGG network of {num_layers} layers", hint=f"layers: {list(_LAYERS)}")
    net = Net(image_shape, batch_size, dtype)
    for stage, (count, width) in enumerate(zip(_LAYERS[num_layers], (64, 128, 256, 512, 512)), 1):
        for layer in range(1, count + 1):
            net.conv(f"conv{stage}_{layer}", width, 3, bias=True)
            if batch_norm:
                net.norm(f"bn{stage}_{layer}")
            net.relu()
        net.pool("max", 2, 2)
    net.data = call("nn.batch_flatten", net.data)
    inputs = 512 * (image_shape[1] // 32) * (image_shape[2] // 32)
    for name, size in (("fc6", inputs), ("fc7", 4096)):
        net.dense(name, size, 4096).relu()
        net.data = call("nn.dropout", net.data, rate=0.5)
    net.dense("fc8", 4096, num_classes).softmax()
    return Function(tuple(free_vars(net.data)), net.data)


def get_workload(
    batch_size: int, num_classes: int = 1000, image_shape: Sequence[int] = (3, 224, 224), dtype: str = "float32",
    num_layers: int = 11, batch_norm: bool = False,
) -> Any:  # fmt: skip
    """The network as a module, and weights for it."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
