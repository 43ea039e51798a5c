"""Dimensions become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.errors import ArgumentError, IRError
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Function
from compiler.relax.transform.passes import relax_pass
from compiler.suggest import closest
from compiler.tir import nodes as n


@relax_pass("BindSymbolicVars")
def bind_symbolic_vars(
    mod: IRModule, context: PassContext, *, binding_map: Mapping[Any, Any], func_name: str | None = None
) -> IRModule:
    """Replace symbolic dimensions, given by variable or name, by numbers or expressions.

    def main(x: R.Tensor(("n", 4))): …    →    def main(x: R.Tensor((16, 4))): …

    Without `func_name`, in all functions that have them. Raises ArgumentError where there is no such graph function,
    IRError for a dimension that none has.
    """
    functions = dict(mod.functions)
    found: set[Any] = set()
    for name, func in mod.items():
        if not isinstance(func, Function) or func_name not in (None, name.name_hint):
            continue
        own = {key: value for key, value in binding_map.items() if _has(func, key)}
        found |= set(own)
        if own:
            functions[name] = func.bind_symbolic_vars(own)
    if func_name is not None and not _is_graph(mod.get(func_name)):
        raise ArgumentError(f"BindSymbolicVars: {func_name!r} is no graph function of the module")
    for key in binding_map:
        if key not in found:
            names = [var.name for func in mod.values() if isinstance(func, Function) for var in func.symbolic_vars()]
            hint = closest(str(getattr(key, "name", key)), names)
            raise IRError(f"no function has the symbolic variable {key!r}", hint=hint)
    return mod.with_functions(functions)


def _is_graph(func: BaseFunc | None) -> bool:
    return isinstance(func, Function)


def _has(func: Function, key: Any) -> bool:
    known = func.symbolic_vars()
    return any(key is var for var in known) if isinstance(key, n.Var) else any(key == var.name for var in known)
