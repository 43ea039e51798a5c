"""Types of values."""

from compiler.relax.nodes.types import FuncType, PrimType, TensorType, TupleType, Type

__all__ = ["FuncType", "PrimType", "TensorType", "TupleType", "Type"]
