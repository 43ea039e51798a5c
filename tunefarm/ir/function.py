"""Functions of all dialects."""

from compiler.ir.function import BaseFunc

__all__ = ["BaseFunc"]
