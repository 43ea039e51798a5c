"""Tensors, operations, expressions and statements as JSON entries.

A class by name, and where its fields stand.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from compiler.ir.base import GlobalVar, Node, Op
from compiler.te.extern import ExternOp
from compiler.te.scan import ScanOp
from compiler.te.tensor import ComputeOp, PlaceholderOp, Tensor
from compiler.tir import nodes

_OPERATIONS = (PlaceholderOp, ComputeOp, ExternOp, ScanOp)
_CLASSES: dict[str, Any] = {
    name: cls
    for name, cls in vars(nodes).items()
    if isinstance(cls, type) and issubclass(cls, Node) and is_dataclass(cls) and not issubclass(cls, nodes.PrimFunc)
}
_CLASSES |= {cls.__name__: cls for cls in (*_OPERATIONS, GlobalVar)}
_ENUMS = {cls.__name__: cls for cls in (nodes.IterType, nodes.ForKind)}


def encoded_node(node: Any, at: Callable[[Any], int]) -> list[Any] | None:
    """The entry of a node; `at` puts its parts among the entries. None for anything else."""
    match node:
        case Tensor():
            return ["tensor", at(node.op), node.value_index]
        case Op():
            return ["op", node.name]
        case enum.Enum() if type(node).__name__ in _ENUMS:
            return ["enum", type(node).__name__, node.name]
        case Node() if type(node) is _CLASSES.get(type(node).__name__):
            parts = {part.name: at(getattr(node, part.name)) for part in _parts(type(node))}
            return ["node", type(node).__name__, parts]
    return None


def decoded_node(entry: list[Any], made: list[Any]) -> Any:
    """The node of an entry. Raises ValueError for an entry that is none of a node's."""
    match entry:
        case ["tensor", int(op), int(index)]:
            return made[op].output(index)
        case ["op", str(name)]:
            return Op.get(name)
        case ["enum", str(kind), str(name)]:
            return _ENUMS[kind][name]
        case ["node", str(kind), dict(parts)]:
            cls = _CLASSES[kind]
            known = {part.name for part in _parts(cls)}
            given = {name: _plain(made[place]) for name, place in parts.items() if name in known}
            if given.get("shape", given.get("values")) is not None:
                given.pop("ndim", None)  # of a StructInfo: its shape says it
            return cls(**given)
    raise ValueError(entry[:1])


def _parts(cls: type) -> list[Any]:
    """The fields that make an object of a class, apart from where it was written."""
    return [part for part in fields(cls) if part.init and part.name != "span"]


def _plain(value: Any) -> Any:
    """Arrays as tuples, and maps as dicts: what fields of nodes hold."""
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return dict(value) if isinstance(value, dict) else value
