"""Functions, and what stands for an instruction in them."""

from compiler.faces.index_map import IndexMap
from compiler.tir.intrin.tensor_intrin import TensorIntrin
from compiler.tir.nodes import Buffer, PrimFunc, Var

__all__ = ["Buffer", "IndexMap", "PrimFunc", "TensorIntrin", "Var"]
