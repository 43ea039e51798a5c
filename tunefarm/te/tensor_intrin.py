"""Tensor expressions that stand for instructions."""

from compiler.te.tensor_intrin import TensorIntrin, decl_tensor_intrin

__all__ = ["TensorIntrin", "decl_tensor_intrin"]
