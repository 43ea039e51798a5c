"""The result of a network's build."""

from compiler.faces.relay.building import GraphExecutorFactoryModule

__all__ = ["GraphExecutorFactoryModule"]
