"""Changing a dataflow block binding by binding."""

from compiler.relax.rewrite import DataflowBlockRewrite

__all__ = ["DataflowBlockRewrite"]
