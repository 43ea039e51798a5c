"""Arithmetic of TensorIR expressions.

Importing the package gives the text reader its arithmetic.
"""

from compiler.arith import access

__all__ = ["access"]
