"""Types of values."""

from __future__ import annotations

from typing import Any

from compiler.ir.text import quote
from compiler.relax.nodes.types import FuncType, PrimType, TensorType, TupleType, Type

__all__ = ["FuncType", "PointerType", "PrimType", "TensorType", "TupleType", "Type"]


class PointerType(str):
    """The type of an address of elements: the dtype "handle", and what lies there in which memory."""

    element_type: Any
    storage_scope: str

    def __new__(cls, element_type: Any, storage_scope: str = "") -> PointerType:
        made = super().__new__(cls, "handle")
        made.element_type = element_type
        made.storage_scope = storage_scope
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.element_type, self.storage_scope

    def script(self, **_options: Any) -> str:
        """The type as TVMScript text."""
        parts = [quote(str(getattr(self.element_type, "dtype", self.element_type)))]
        parts += [quote(self.storage_scope)] if self.storage_scope else []
        return f"T.handle({', '.join(parts)})"
