"""Weights of imported models that are parameters of the graph's functions."""

from __future__ import annotations

from compiler.ir.module import IRModule
from compiler.relax.nodes import Function
from compiler.runtime.core.ndarray import NDArray


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[NDArray]]]:
    """Take the values of parameters out of a module: the module without them, and the values by function."""
    functions, found = dict(mod.functions), {}
    for gvar, func in mod.functions.items():
        if isinstance(func, Function) and "params" in func.attrs:
            found[gvar.name_hint] = list(func.attrs["params"])
            functions[gvar] = func.without_attr("params")
    return mod.with_functions(functions), found
