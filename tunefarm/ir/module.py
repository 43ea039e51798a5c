"""Modules of functions."""

from compiler.ir.module import IRModule

__all__ = ["IRModule"]
