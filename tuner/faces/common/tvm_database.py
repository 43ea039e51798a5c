"""Lines of the two files that Apache TVM's `JSONDatabase` keeps.

Workloads, and records that name one by its number.

A workload is a pair of a hash and a module, which is JSON behind its length, in base64. A record is a trace, seconds,
a target's options and the arguments.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from typing import Any

from compiler.errors import TargetError
from compiler.ir.module import IRModule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.faces.common.tvm_ffi_graph import FFIGraph
from tuner.faces.common.tvm_graph import ForeignError, Graph
from tuner.faces.common.tvm_graph_writer import module_json

_MAX_NODES = 1_000_000
_LENGTH = struct.Struct("<Q")  # stands before a workload's text


def workload_line(mod: IRModule, key: str) -> list[str]:
    """Return a workload as TVM keeps it.

    Raises ForeignError where its text has no node for a part of the module. TVM counts its own hash anew when it reads;
    the number here only tells equal workloads from others.
    """
    text = module_json(mod).encode()
    return [str(int(key[:15], 16)), base64.b64encode(_LENGTH.pack(len(text)) + text).decode()]


def is_workload(data: Any) -> bool:
    """Whether a line is a workload as TVM writes it."""
    match data:
        case [str(key), str()]:
            return key.isdecimal() and len(key) <= 20
    return False


def read_workload(data: Any) -> dict[str, PrimFunc]:
    """Return the functions of a line that is one, by name. Raises ForeignError."""
    match data:
        case [_, str(text)]:
            try:
                packed = base64.b64decode(text, validate=True)
                return read_functions(packed[_LENGTH.size :].decode())
            except (ValueError, binascii.Error) as error:
                raise ForeignError(f"its workload is damaged: {error}") from None
    raise ForeignError("its workload is no pair of a hash and a text")


def read_functions(text: str) -> dict[str, PrimFunc]:
    """Return the functions of the module (or the one function) that `text` holds, by name.

    Raises ForeignError when it is no such text, or has something in it that is not known here.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"the workload is not JSON: {error}") from None
    graph, root = graph_of(data)
    return graph.functions(root)


def graph_of(data: Any, whole: bool = False) -> tuple[Graph, int]:
    """Return the nodes of JSON that TVM wrote, and the number of the first.
    Raises ForeignError for other JSON."""
    match data:
        case {"root": int(root), "nodes": [*nodes]} if len(nodes) <= _MAX_NODES:
            return Graph(nodes, whole), root
        case {"root_index": int(root), "nodes": [*nodes]} if len(nodes) <= _MAX_NODES:
            return FFIGraph(nodes, whole), root
    raise ForeignError("the workload is no list of nodes as TVM writes it")


def read_target(options: Mapping[str, Any]) -> Target:
    """Return the target of a record, without options that are unknown here.
    Raises ForeignError for another kind."""
    given = {name: value for name, value in options.items() if value not in ("", None, [])}
    wanted: dict[str, Any] = {"kind": given.pop("kind", None)}
    if isinstance(host := given.pop("host", None), Mapping):
        wanted["host"] = read_target(host)
    try:
        Target(wanted)
    except TargetError as error:
        raise ForeignError(f"its target: {error.message}") from None
    for name, value in given.items():
        try:
            Target({**wanted, name: value})
        except TargetError:  # says nothing of the code that is made here
            continue
        wanted[name] = value
    return Target(wanted)
