"""Graphs as trees of their nodes, to inspect the input of a pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from compiler.ir.base import GlobalVar, Node, Op
from compiler.ir.text import quote
from compiler.relax.nodes import Constant, DataTypeImm, StringImm, StructInfo, Tuple, Var
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes import Var as TirVar

_HIDDEN = frozenset({"span", "struct_info_", "vid"})


def dump_ast(
    exp: Node, indent_str: str = "    ", include_struct_info_annotations: bool = True, include_call_attrs: bool = True
) -> str:
    """`exp` as a tree: each node by its class and its fields, one a line where there are several.

    `include_struct_info_annotations`: whether what is known of each expression is told, too. `include_call_attrs`:
    whether the attributes of calls are.
    """
    return _Dump(indent_str, include_struct_info_annotations, include_call_attrs).show(exp)


class _Dump:
    def __init__(self, indent: str, infos: bool, attrs: bool) -> None:
        self._indent = indent
        self._infos = infos
        self._attrs = attrs

    def show(self, value: Any) -> str:
        """The lines of any value."""
        match value:
            case Var():
                named = {"name_hint": quote(value.name_hint)}
            case TirVar() | PrimExpr():
                return f"PrimExpr(value=`{value.name if isinstance(value, TirVar) else value}`)"
            case GlobalVar():
                named = {"name_hint": quote(value.name_hint)}
            case Op():
                return f"Op(name={quote(value.name)})"
            case Constant():
                named = {"data": _data(value)}
            case StringImm() | DataTypeImm():
                named = {"value": quote(value.value)}
            case Tuple():
                named = {"fields": self._list(value.fields)}
            case Node():
                named = self._fields(value)
            case tuple() | list():
                return self._list(value)
            case Mapping():
                return self._block("{", [f"{quote(str(key))}: {self.show(item)}" for key, item in value.items()], "}")
            case str():
                return quote(value)
            case _:
                return str(value)
        info = getattr(value, "struct_info_", None)
        if self._infos and info is not None and not isinstance(value, StructInfo):
            named["struct_info"] = self.show(info)
        return self._block(f"{type(value).__name__}(", [f"{name}={text}" for name, text in named.items()], ")")

    def _fields(self, node: Node) -> dict[str, str]:
        """The fields that say something. Attributes and StructInfo that nobody gave are left out."""
        found: dict[str, str] = {}
        for item in fields(node):  # type: ignore[arg-type]
            value = getattr(node, item.name)
            if item.name in _HIDDEN or value is None or (item.name in ("attrs", "sinfo_args") and not value):
                continue
            if item.name != "attrs" or self._attrs or type(node).__name__ != "Call":
                found[item.name] = self.show(value)
        return found

    def _list(self, items: Iterable[Any]) -> str:
        return self._block("[", [self.show(item) for item in items], "]")

    def _block(self, start: str, items: list[str], end: str) -> str:
        """Lay out items on a line each. An item of one line stays beside its brackets."""
        if len(items) < 2 and "\n" not in "".join(items):
            return start + "".join(items) + end
        inner = ",\n".join(items).replace("\n", f"\n{self._indent}")
        return f"{start}\n{self._indent}{inner}\n{end}"


def _data(value: Constant) -> str:
    if not value.data.is_host:
        return f"{value.data.shape} of {value.data.dtype} on {value.data.device}"
    return np.array2string(value.array, separator=", ", threshold=32)
