"""Layers of products, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from compiler.faces.relay.nodes import Function
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.testing.init import create_workload
from compiler.faces.relay.testing.layers import Net, call


def get_net(
    batch_size: int, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """Three layers of 128, 64 and `num_classes` units."""
    net = Net(image_shape, batch_size, dtype)
    net.data = call("nn.batch_flatten", net.data)
    net.dense("fc1", prod(image_shape), 128).relu().dense("fc2", 128, 64).relu()
    net.dense("fc3", 64, num_classes).softmax()
    return Function(tuple(free_vars(net.data)), net.data)


def get_workload(
    batch_size: int, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28), dtype: str = "float32"
) -> Any:
    """The network as a module, and weights for it."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
