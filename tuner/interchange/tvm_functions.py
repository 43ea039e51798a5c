"""Functions out of the JSON that Apache TVM writes them as, whichever of its two formats that is."""

from __future__ import annotations

import json

from compiler.tir.nodes import PrimFunc
from tuner.interchange.tvm_ffi_graph import FFIGraph
from tuner.interchange.tvm_graph import ForeignError, Graph

_MAX_NODES = 1_000_000


def read_functions(text: str) -> dict[str, PrimFunc]:
    """The functions of the module (or the one function) that `text` holds, by name.

    Raises ForeignError when it is no such text, or has something in it that is not known here.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"the workload is not JSON: {error}") from None
    match data:
        case {"root": int(root), "nodes": [*nodes]} if len(nodes) <= _MAX_NODES:
            return Graph(nodes).functions(root)
        case {"root_index": int(root), "nodes": [*nodes]} if len(nodes) <= _MAX_NODES:
            return FFIGraph(nodes).functions(root)
    raise ForeignError("the workload is no list of nodes as TVM writes it")
