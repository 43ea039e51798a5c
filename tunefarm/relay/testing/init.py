"""Weights for networks."""

from compiler.faces.relay.testing.init import create_workload, xavier

__all__ = ["create_workload", "xavier"]
