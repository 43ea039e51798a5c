"""Named values beside calls and functions."""

from __future__ import annotations

from typing import Any

from compiler.driver.objects import convert_to_object
from compiler.errors import IRError
from compiler.ir.attrs import Attrs, DictAttrs

__all__ = ["Attrs", "DictAttrs", "make_node"]


def make_node(type_key: str, **kwargs: Any) -> Any:
    """An object of a class by its name: attributes.
    Raises IRError for the classes of nodes, which are called."""
    if type_key not in ("DictAttrs", "ir.DictAttrs", "Attrs"):
        raise IRError(f"make_node makes attributes, not {type_key!r}", hint="call the node's class: tir.Var(…)")
    return DictAttrs({name: convert_to_object(value) for name, value in kwargs.items()})
