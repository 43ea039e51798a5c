"""Tensors and the operations that make them."""

from compiler.te.extern import ExternOp
from compiler.te.scan import ScanOp
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice
from compiler.te.tensor_intrin import TensorIntrin

__all__ = ["ComputeOp", "ExternOp", "Operation", "PlaceholderOp", "ScanOp", "Tensor", "TensorIntrin", "TensorSlice"]
