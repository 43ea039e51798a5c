"""Objects as JSON: functions and modules, and what holds them.

Functions of TensorIR are nodes as Apache TVM 0.8 to 0.20 reads them. The text that is exact here stands beside them,
under attributes, which TVM does not look at.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from enum import Enum
from typing import Any

from compiler.driver.objects import Array, Map
from compiler.errors import IRError
from compiler.faces.tir_schedule.trace import Trace
from compiler.ir.attrs import DictAttrs
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.files.params import load_param_dict, save_param_dict
from compiler.schedule.core.schedule import Schedule
from compiler.script import saved
from compiler.target.target import Target
from compiler.tir import nodes as n
from tunefarm.ir.env_func import EnvFunc
from tunefarm.ir.json_nodes import decoded_node, encoded_node
from tuner.faces.common.tvm_database import graph_of
from tuner.faces.common.tvm_graph import ForeignError
from tuner.faces.common.tvm_graph_writer import module_json
from tuner.faces.meta_schedule.record import TuningRecord, Workload

__all__ = ["load_json", "save_json"]

_FORMAT = "tunefarm.objects"
_EXACT = "tunefarm.ir"
_ONLY = "array"  # the name of a tensor among the parameters that it is written as


def save_json(node: Any) -> str:
    """Write objects as JSON.

    They are functions, modules, tensors, nodes of TensorIR, targets, traces and tuning records, and what holds them.
    That is arrays, maps, attributes, numbers, texts, functions of the registry. An object that stands in several places
    is kept once.

    Raises IRError for anything else.
    """
    if isinstance(node, BaseFunc | IRModule):
        return _saved_ir(node)
    seen: dict[int, int] = {}
    kept: list[Any] = []
    root = _encoded(node, seen, kept)
    return json.dumps({"format": _FORMAT, "version": 1, "root": root, "nodes": kept})


def load_json(text: str) -> Any:
    """Return what `save_json` made `text` of, here or in Apache TVM.

    Raises IRError for anything else; nothing in it is executed. Of TVM's objects, functions of TensorIR are read, and
    modules, expressions and statements of them.
    """
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return saved.load_json(text)  # which says what is wrong
    if isinstance(found, dict) and "nodes" in found and "format" not in found:
        return _from_nodes(found)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        return saved.load_json(text)
    made: list[Any] = []
    try:
        for entry in found["nodes"]:
            made.append(_decoded(entry, made))
        return made[found["root"]]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise IRError(f"load_json: this is no saved object: {error!r}") from None


def _saved_ir(node: BaseFunc | IRModule) -> str:
    exact = saved.save_json(node)
    functions = node.functions.values() if isinstance(node, IRModule) else [node]
    if not functions or not isinstance(node, IRModule | n.PrimFunc):
        return exact
    try:
        return module_json(node, **{_EXACT: exact})
    except ForeignError:  # it has parts that TVM has no node for
        return exact


def _from_nodes(found: dict[str, Any]) -> Any:
    notes = found.get("attrs")
    exact = notes.get(_EXACT) if isinstance(notes, dict) else None
    if isinstance(exact, str):
        return saved.load_json(exact)
    try:
        graph, root = graph_of(found, whole=True)
        made = graph.at(root)
    except ForeignError as error:
        raise IRError(f"load_json: {error.message}", hint=error.hint) from None
    if isinstance(made, dict) and made and all(isinstance(part, n.PrimFunc) for part in made.values()):
        return IRModule(made)
    return made


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
            case Target():
                entry = ["target", str(node)]
            case NDArray():
                entry = ["tensor", b64encode(save_param_dict({_ONLY: node})).decode("ascii")]
            case Trace():
                entry = ["trace", node.to_json()]
            case Workload():
                entry = ["workload", _encoded(node.mod, seen, kept)]
            case TuningRecord():
                entry = ["record", _encoded(node.workload, seen, kept), node.as_json()]
            case str() | bool() | int() | float() | None if not isinstance(node, Enum):
                entry = ["plain", node]
            case _:
                found = encoded_node(node, lambda item: _encoded(item, seen, kept))
                if found is None:
                    raise IRError(
                        f"save_json cannot keep a {type(node).__name__}",
                        hint="it keeps functions, modules, tensors, nodes of TensorIR, arrays, maps, numbers and texts"
                        + ("; of a schedule keep `mod` and `trace`" if isinstance(node, Schedule) else ""),
                    )
                entry = found
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
        case ["target", str() as text]:
            return Target(text)
        case ["tensor", str() as text]:
            return load_param_dict(b64decode(text, validate=True))[_ONLY]
        case ["trace", str() as text]:
            return Trace.from_json(text)
        case ["workload", int() as at]:
            return Workload(made[at])
        case ["record", int() as at, list() as fields]:
            return TuningRecord.from_json(fields, made[at])
        case ["plain", str() | bool() | int() | float() | None as value]:
            return value
    return decoded_node(entry, made)
