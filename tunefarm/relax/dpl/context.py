"""Patterns that are found together in a dataflow block."""

from compiler.relax.dpl.context import PatternContext, match_graph

__all__ = ["PatternContext", "match_graph"]
