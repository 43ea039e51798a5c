"""Functions get the names that they are found by."""

from __future__ import annotations

from compiler.ir.attrs import Attrs
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Function
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n


@relax_pass("AttachGlobalSymbol")
def attach_global_symbol(mod: IRModule, context: PassContext) -> IRModule:
    """Note in each function its name in the module, under which other programs find it.

    @R.function(private=True)          @R.function
    def helper(x): …             →     def helper(x):
                                           R.func_attr({"global_symbol": "helper"})
                                           …
    """
    functions: dict[object, BaseFunc] = {}
    for name, func in mod.items():
        if func.attrs.get("global_symbol") == name.name_hint:
            functions[name] = func
        elif isinstance(func, n.PrimFunc):
            functions[name] = func.with_attr("global_symbol", name.name_hint)
        elif isinstance(func, Function) and func.body is not None:
            attrs = Attrs({**func.attrs, "global_symbol": name.name_hint})
            functions[name] = Function(func.params, func.body, func.ret_struct_info, func.is_pure, attrs, func.span)
        else:
            functions[name] = func
    return mod.with_functions(functions)  # type: ignore[arg-type]
