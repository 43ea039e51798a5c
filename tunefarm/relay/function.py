"""Functions."""

from compiler.faces.relay.nodes import Function

__all__ = ["Function"]
