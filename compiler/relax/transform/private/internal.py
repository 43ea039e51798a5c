"""Which functions may change their signatures, and how calls of them follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Binding, Call, Function, SeqExpr

FIXED = ("Codegen", "Composite", "Primitive")
"""Attributes of functions that other passes have made for a purpose: they stay as they are."""


def internal_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """The private graph functions that are called, and not used in any other way."""
    found = {
        name: func
        for name, func in mod.items()
        if isinstance(func, Function) and func.body is not None and "global_symbol" not in func.attrs
    }
    for func in mod.values():
        for node in walk(func) if isinstance(func, Function) else ():
            if isinstance(node, Call):
                for arg in node.args:
                    for part in walk(arg):
                        if isinstance(part, GlobalVar):
                            found.pop(part, None)
            elif isinstance(node, Binding) and isinstance(node.value, GlobalVar):
                found.pop(node.value, None)
            elif isinstance(node, SeqExpr) and isinstance(node.body, GlobalVar):
                found.pop(node.body, None)
    return {name: func for name, func in found.items() if not any(key in func.attrs for key in FIXED)}


class CallsFollow(PyExprMutator):
    """Rewrites the calls of functions whose signatures have changed."""

    def __init__(self, mod: IRModule, calls: Mapping[GlobalVar, Callable[[Call], Call]]) -> None:
        super().__init__(mod)
        self._calls = calls

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        rule = self._calls.get(call.op) if isinstance(call.op, GlobalVar) else None
        return call if rule is None else rule(call)
