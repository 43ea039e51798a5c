"""The generator of DCGAN (Radford et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.faces.relay.nodes import Function
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.testing.init import create_workload
from compiler.faces.relay.testing.layers import Net, call


def get_net(
    batch_size: int, random_len: int = 100, oshape: Sequence[int] = (3, 64, 64), ngf: int = 128,
    code: Any = None, dtype: str = "float32",
) -> Function:  # fmt: skip
    """A picture of 64 × 64 pixels from `random_len` numbers."""
    net = Net((random_len,), batch_size, dtype)
    weight = net.weight("dense_weight", 4 * 4 * ngf * 8, random_len)
    net.data = call("reshape", call("nn.dense", net.data, weight), (-1, ngf * 8, 4, 4))
    net.channels = ngf * 8
    net.norm("bn0").relu()
    for place, width in enumerate((ngf * 4, ngf * 2, ngf, oshape[0]), 1):
        kernel = net.weight(f"g{place}_weight", net.channels, width, 4, 4)
        net.data = call(
            "nn.conv2d_transpose", net.data, kernel, strides=(2, 2), padding=(1, 1), channels=width, kernel_size=(4, 4)
        )
        net.channels = width
        if place < 4:
            net.norm(f"bn{place}").relu()
    net.data = call("tanh", net.data)
    return Function(tuple(free_vars(net.data)), net.data)


def get_workload(
    batch_size: int, oshape: Sequence[int] = (3, 64, 64), ngf: int = 128, random_len: int = 100,
    dtype: str = "float32",
) -> Any:  # fmt: skip
    """The network as a module, and weights for it."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, None, dtype))
