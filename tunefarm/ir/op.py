"""Operators."""

from compiler.ir.base import Op

__all__ = ["Op"]
