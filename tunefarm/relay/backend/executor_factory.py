"""What a build of a network gives."""

from compiler.faces.relay.building import GraphExecutorFactoryModule

__all__ = ["GraphExecutorFactoryModule"]
