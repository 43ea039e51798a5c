"""The network of that name."""

from compiler.faces.relay.testing.densenet import get_net, get_workload

__all__ = ["get_net", "get_workload"]
