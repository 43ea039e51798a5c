"""Operators between expressions and tensors, as functions."""

from tunefarm.tir.op import div as divide
from tunefarm.tir.op import floordiv
from tunefarm.topi import add, cast, multiply, subtract

__all__ = ["add", "cast", "divide", "floordiv", "multiply", "subtract"]
