"""Types without shapes."""

from compiler.relax.nodes import ObjectType, PackedFuncType, ShapeType, TensorType

__all__ = ["ObjectType", "PackedFuncType", "ShapeType", "TensorType"]
