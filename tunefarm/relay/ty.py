"""Types."""

from compiler.faces.relay.types import Any, FuncType, TensorType, TupleType, Type, TypeVar, scalar_type

__all__ = ["Any", "FuncType", "TensorType", "TupleType", "Type", "TypeVar", "scalar_type"]
