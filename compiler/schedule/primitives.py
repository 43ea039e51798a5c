"""The modules of primitives: importing this one registers them all."""

from compiler.schedule import kinds, loops, query

__all__ = ["kinds", "loops", "query"]
