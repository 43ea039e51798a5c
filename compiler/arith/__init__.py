"""Arithmetic of TensorIR expressions. Loading the package gives texts the arithmetic that reading them needs."""

from compiler.arith import access

__all__ = ["access"]
