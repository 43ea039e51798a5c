"""From here on, functions may have side effects."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import Op
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Function
from compiler.relax.transform.passes import relax_pass, rewritten

_PACKED = ("relax.call_pure_packed", "relax.call_inplace_packed")


@relax_pass("RemovePurityChecking")
def remove_purity_checking(mod: IRModule, context: PassContext) -> IRModule:
    """Mark every function as one with side effects, because later passes put memory and checks into it.

    lv = R.call_pure_packed("f", x, sinfo_args=…)    →    lv = R.call_packed("f", x, sinfo_args=…)
    """
    return rewritten(mod, _Impure)


class _Impure(PyExprMutator):
    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if isinstance(call.op, Op) and call.op.name in _PACKED:
            return Call(call.args[0], call.args[1:], None, call.sinfo_args, call.span)
        return call

    def visit_function_(self, op: Function) -> Any:
        func: Any = super().visit_function_(op)
        if func.body is None or not func.is_pure:
            return func
        return Function(func.params, func.body, func.ret_struct_info, False, func.attrs, func.span)
