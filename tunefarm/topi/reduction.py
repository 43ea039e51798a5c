"""Reductions over axes of a tensor."""

from compiler.topi import all, any, argmax, argmin, max, min, prod, sum

__all__ = ["all", "any", "argmax", "argmin", "max", "min", "prod", "sum"]
