"""Functions by name."""

from compiler.runtime.core.packed import PackedFunc

__all__ = ["PackedFunc"]
