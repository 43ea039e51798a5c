"""Objects as JSON: what `ir.save_json` keeps beside functions and modules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compiler.driver.objects import Array, Map
from compiler.errors import IRError
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.relax.nodes.attrs import DictAttrs
from compiler.script import saved
from compiler.tir import nodes as n
from tunefarm.ir.env_func import EnvFunc

__all__ = ["load_json", "save_json"]

_FORMAT = "tunefarm.objects"


def save_json(node: Any) -> str:
    """Functions, modules, and what holds them: arrays, maps, attributes, numbers, texts, variables, functions of the
    registry. An object that stands in several places is kept once. Raises IRError for anything else."""
    if isinstance(node, BaseFunc | IRModule):
        return saved.save_json(node)
    seen: dict[int, int] = {}
    kept: list[Any] = []
    root = _encoded(node, seen, kept)
    return json.dumps({"format": _FORMAT, "version": 1, "root": root, "nodes": kept})


def load_json(text: str) -> Any:
    """Return what `save_json` made `text` of. Raises IRError for anything else; nothing in it is executed."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return saved.load_json(text)  # which says what is wrong
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        return saved.load_json(text)
    made: list[Any] = []
    try:
        for entry in found["nodes"]:
            made.append(_decoded(entry, made))
        return made[found["root"]]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise IRError(f"load_json: this is no saved object: {error!r}") from None


def _encoded(node: Any, seen: dict[int, int], kept: list[Any]) -> int:
    """The place of an object in `kept`, where it is put after all that it holds."""
    if id(node) not in seen:
        match node:
            case BaseFunc() | IRModule():
                entry: list[Any] = ["ir", saved.save_json(node)]
            case EnvFunc():
                entry = ["env", node.name]
            case DictAttrs():
                entry = ["attrs", {name: _encoded(value, seen, kept) for name, value in node.items()}]
            case n.Var():
                entry = ["size_var" if isinstance(node, n.SizeVar) else "var", node.name, node.dtype]
            case n.IntImm() | n.FloatImm():
                entry = ["int" if isinstance(node, n.IntImm) else "float", node.dtype, node.value]
            case n.StringImm():
                entry = ["text", node.value]
            case Mapping():
                entry = ["map", [[_encoded(key, seen, kept), _encoded(v, seen, kept)] for key, v in node.items()]]
            case list() | tuple():
                entry = ["array", [_encoded(item, seen, kept) for item in node]]
            case str() | bool() | int() | float() | None:
                entry = ["plain", node]
            case _:
                raise IRError(
                    f"save_json cannot keep a {type(node).__name__}",
                    hint="it keeps functions and modules, and arrays, maps, numbers, texts and variables",
                )
        seen[id(node)] = len(kept)
        kept.append(entry)
    return seen[id(node)]


def _decoded(entry: list[Any], made: list[Any]) -> Any:
    match entry:
        case ["ir", text]:
            return saved.load_json(text)
        case ["env", name]:
            return EnvFunc.get(name)
        case ["attrs", values]:
            return DictAttrs({name: made[at] for name, at in values.items()})
        case ["var", name, dtype]:
            return n.Var(name, dtype)
        case ["size_var", name, dtype]:
            return n.SizeVar(name, dtype)
        case ["int", dtype, value]:
            return n.IntImm(dtype, value)
        case ["float", dtype, value]:
            return n.FloatImm(dtype, value)
        case ["text", value]:
            return n.StringImm(value)
        case ["map", pairs]:
            return Map({made[key]: made[value] for key, value in pairs})
        case ["array", items]:
            return Array([made[at] for at in items])
        case ["plain", str() | bool() | int() | float() | None as value]:
            return value
    raise ValueError(entry[:1])
