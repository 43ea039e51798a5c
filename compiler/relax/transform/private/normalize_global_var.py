"""Functions are called in the module what they are called outside."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import map_children
from compiler.relax.names import FreshNames
from compiler.relax.nodes import Function
from compiler.relax.nodes.base import set_struct_info
from compiler.relax.nodes.renew import Renewal
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n


@relax_pass("NormalizeGlobalVar")
def normalize_global_var(mod: IRModule, context: PassContext) -> IRModule:
    """Name each public function as its "global_symbol" says; private ones in the way get other names.

    def main_1(x):  # global_symbol "main"     →    def main(x):
    def main(x):    # private                       def main1(x):
    """
    public = {name: str(func.attrs["global_symbol"]) for name, func in mod.items() if "global_symbol" in func.attrs}
    taken = FreshNames()
    for symbol in public.values():
        if symbol in taken:
            raise IRError(f"two functions have the global_symbol {symbol!r}")
        taken.take(symbol)
    names: dict[GlobalVar, GlobalVar] = {}
    for name, func in mod.items():
        wanted = public[name] if name in public else taken.unique(name.name_hint)
        if wanted != name.name_hint:
            names[name] = GlobalVar(wanted)
            if isinstance(func, Function):
                set_struct_info(names[name], func.struct_info)
    if not names:
        return mod
    renaming = _Renaming(names)
    functions = {names.get(name, name): renaming.renamed(func) for name, func in mod.items()}
    return mod.with_functions(functions)


class _Renaming(Renewal):
    def __init__(self, names: dict[GlobalVar, GlobalVar]) -> None:
        super().__init__()
        self._names = names

    def expr(self, expr: Any) -> Any:
        return self._names.get(expr, expr) if isinstance(expr, GlobalVar) else super().expr(expr)

    def renamed(self, func: BaseFunc) -> BaseFunc:
        if isinstance(func, Function):
            return self.function(func)
        return func.with_body(self._in_kernel(func.body)) if isinstance(func, n.PrimFunc) else func

    def _in_kernel(self, node: Any) -> Any:
        return self._names.get(node, node) if isinstance(node, GlobalVar) else map_children(node, self._in_kernel)
