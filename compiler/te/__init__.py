"""Tensor expressions. Importing any module of this package gives tensors their operators."""

from compiler.te import broadcast as _broadcast  # noqa: F401
