"""Graphs that programs of TVM give: of Relay, or of relax already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.faces.relay.translate import to_relax
from compiler.ir.module import IRModule
from compiler.relax.nodes import Function


def graph_of(mod: Any, params: Mapping[str, Any] | None) -> IRModule | Function:
    """Return the relax graph of a module or function of Relay, with its weights `params` in it.

    One of relax is returned as it is. Raises IRError for an operator that has no counterpart.
    """
    functions = list(mod.values()) if isinstance(mod, IRModule) else [mod]
    return mod if any(isinstance(func, Function) for func in functions) else to_relax(mod, params)
