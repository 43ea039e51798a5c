"""SqueezeNet (Iandola et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Function, Tuple
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.testing.init import create_workload
from compiler.faces.relay.testing.layers import Net, call

_FIRES = {
    "1.0": ((96, 7), {0, 3, 7}, [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]),
    "1.1": ((64, 3), {0, 2, 4}, [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]),
}


def _fire(net: Net, name: str, squeezed: int, expanded: int) -> None:
    net.conv(f"{name}_squeeze", squeezed, 1, bias=True).relu()
    data = net.data
    left = net.conv(f"{name}_expand1x1", expanded, 1, bias=True).relu().data
    net.data, net.channels = data, squeezed
    right = net.conv(f"{name}_expand3x3", expanded, 3, bias=True).relu().data
    net.data, net.channels = call("concatenate", Tuple((left, right)), axis=1), 2 * expanded


def get_net(batch_size: int, image_shape: Sequence[int], num_classes: int, version: str, dtype: str) -> Function:
    """The network of a version, "1.0" or "1.1"."""
    if version not in _FIRES:
        raise ArgumentError(f"there is no version {version!r}", hint='"1.0" or "1.1"')
    (width, size), pooled, fires = _FIRES[version]
    net = Net(image_shape, batch_size, dtype)
    net.conv("conv1", width, size, 2, 3 if version == "1.0" else 1, bias=True).relu()
    for place, (squeezed, expanded) in enumerate(fires):
        if place in pooled:
            net.pool("max", 3, 2)
        _fire(net, f"fire{place}", squeezed, expanded)
    net.data = call("nn.dropout", net.data, rate=0.5)
    net.conv("conv_last", num_classes, 1, bias=True).relu()
    net.data = call("nn.batch_flatten", call("nn.global_avg_pool2d", net.data))
    net.softmax()
    return Function(tuple(free_vars(net.data)), net.data)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, version: str = "1.0", image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Any:  # fmt: skip
    """The network as a module, and weights for it."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
