"""Parameters become constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Function
from compiler.relax.transform.passes import relax_pass


@relax_pass("BindParams")
def bind_params(mod: IRModule, context: PassContext | None, *, func_name: str, params: Mapping[Any, Any]) -> IRModule:
    """Replace parameters of one function, given by name or variable, by values.

        def main(x, w):                            def main(x):
            return R.matmul(x, w)     →                return R.matmul(x, R.const([[…]]))

    Dimensions that the values tell become numbers. Raises ArgumentError where there is no such graph function, and
    IRError for a value that does not fit.
    """
    func = mod.get(func_name)
    if not isinstance(func, Function):
        what = "no function" if func is None else f"a {type(func).__name__}"
        raise ArgumentError(f"BindParams: {func_name!r} is {what}, not a graph function of the module")
    functions = dict(mod.functions)
    name = next(name for name in functions if name.name_hint == func_name)
    functions[name] = func.bind_params(params)
    return mod.with_functions(functions)
