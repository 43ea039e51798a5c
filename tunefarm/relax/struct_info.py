"""Facts of values before they exist."""

from compiler.relax.nodes import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = [
    "FuncStructInfo", "ObjectStructInfo", "PrimStructInfo", "ShapeStructInfo", "StructInfo", "TensorStructInfo",
    "TupleStructInfo",
]  # fmt: skip
