"""The network of that name."""

from compiler.faces.relay.testing.mobilenet import get_workload, mobile_net

__all__ = ["get_workload", "mobile_net"]
