"""Private functions are put where they are called."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.analysis.recursion import detect_recursion
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Function, info_of
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.unify import Values, unify
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.private.internal import FIXED
from compiler.relax.utils import copy_with_new_vars


@relax_pass("InlinePrivateFunctions", opt_level=1)
def inline_private_functions(mod: IRModule, context: PassContext) -> IRModule:
    """Inline private functions where they are called; functions that call themselves stay.

    def inner(x): return R.exp(x)    →    def main(x):
    def main(x):                              lv = R.exp(x)
        lv = inner(x)                         return lv
        return lv

    Functions that fusion has made (attributes Primitive, Composite, Codegen) stay.
    """
    recursive = {name for group in detect_recursion(mod) for name in group}
    private = {
        name: func
        for name, func in mod.items()
        if isinstance(func, Function)
        and func.body is not None
        and not any(key in func.attrs for key in ("global_symbol", *FIXED))
        and name not in recursive
    }
    if not private:
        return mod
    inliner = _Inliner(mod, private)
    for name, func in mod.items():
        if isinstance(func, Function) and func.body is not None:
            inliner.inlined(name)
    made = inliner.builder_.get()
    functions = dict(made.functions)
    needed = {
        node
        for name, func in functions.items()
        for node in (walk(func) if isinstance(func, Function) and name not in private else ())
        if isinstance(node, GlobalVar)
    }
    return made.with_functions(
        {name: func for name, func in functions.items() if name not in private or name in needed}
    )


class _Inliner(PyExprMutator):
    def __init__(self, mod: IRModule, private: dict[GlobalVar, Function]) -> None:
        super().__init__(mod)
        self._private = private
        self._module = mod
        self._done: dict[GlobalVar, Function] = {}

    def inlined(self, name: GlobalVar) -> Function:
        """A function with calls of private ones replaced, those inside of them first."""
        if name not in self._done:
            func = self._module[name]
            assert isinstance(func, Function)
            for node in walk(func):
                if isinstance(node, GlobalVar) and node in self._private and node != name:
                    self.inlined(node)
            made = self.visit_expr(func)
            if made is not func:
                self.builder_.update_func(name, made)
            self._done[name] = made
        return self._done[name]

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, GlobalVar) or call.op not in self._private:
            return call
        return _body(copy_with_new_vars(self._done[call.op]), call)


def _body(func: Function, call: Call) -> RelaxExpr:
    """Return what the function does with the arguments of a call."""
    values = Values()
    for param, arg in zip(func.params, call.args):
        unify(param.struct_info, info_of(arg), values)
    return Renewal(variables=dict(zip(func.params, call.args)), symbols=values.found).expr(func.body)  # type: ignore[no-any-return]
