"""The network of that name."""

from compiler.faces.relay.testing.vgg import get_net, get_workload

__all__ = ["get_net", "get_workload"]
