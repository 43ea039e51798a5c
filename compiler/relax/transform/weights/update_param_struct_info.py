"""Parameters of which something else is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Function, StructInfo, Var
from compiler.relax.transform.passes import relax_pass


@relax_pass("UpdateParamStructInfo")
def update_param_struct_info(
    mod: IRModule, context: PassContext, *, sinfo_func: Callable[[Var], StructInfo | None]
) -> IRModule:
    """Give parameters the StructInfo that `sinfo_func(parameter)` returns.

    A parameter for which it returns None keeps its own. All other values are inferred again.

    def main(x: R.Tensor((4,), "float32")):     →    def main(x: R.Tensor((4,), "float16")):
        lv: R.Tensor((4,), "float32") = x + x            lv: R.Tensor((4,), "float16") = x + x

    Raises IRError if an operator does not take its new arguments.
    """
    rewriter = _Updater(mod, sinfo_func)
    changed = True
    while changed:  # what a function returns may change those that call it
        changed = False
        for name, func in rewriter.builder_.get().items():
            if isinstance(func, Function) and func.body is not None:
                made = rewriter.visit_expr(func)
                if made is not func:
                    changed = changed or made.struct_info_ != func.struct_info_
                    rewriter.builder_.update_func(name, made)
        rewriter = _Updater(rewriter.builder_.get(), lambda param: None)
    return rewriter.builder_.get()


@relax_pass("UpdateParamType")
def update_param_type(
    mod: IRModule, context: PassContext, *, ty_func: Callable[[Var], StructInfo | None]
) -> IRModule:
    """Do what `UpdateParamStructInfo` does, under its name in newer versions of TVM.

    def main(x: R.Tensor((4,), "float32")):     →    def main(x: R.Tensor((4,), "float16")):
    """
    return update_param_struct_info(mod, context, sinfo_func=ty_func)


class _Updater(PyExprMutator):
    def __init__(self, mod: IRModule, sinfo_func: Callable[[Var], StructInfo | None]) -> None:
        super().__init__(mod)
        self._sinfo_func = sinfo_func
        self._params: frozenset[Var] = frozenset()

    def visit_function_(self, op: Function) -> Any:
        self._params = frozenset(op.params)
        return super().visit_function_(op)

    def visit_var_def_(self, var: Var) -> Var:
        info = self._sinfo_func(var) if var in self._params else None
        return var if info is None or info == var.struct_info_ else Var(var.vid, info, var.span)

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if call is op and isinstance(call.op, GlobalVar):
            fresh = self.builder_.normalize(Call(op.op, op.args, op.attrs, op.sinfo_args, op.span))
            return call if fresh.struct_info_ == op.struct_info_ else fresh
        return call
