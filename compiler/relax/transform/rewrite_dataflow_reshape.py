"""Kernels that only copy memory as it lies become another view of it."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.analysis.overwritten import overwritten_values
from compiler.relax.analysis.reshape_pattern import has_reshape_pattern
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, DataflowVar, Function, TensorStructInfo, Tuple, Var, VarBinding, info_of
from compiler.relax.op.movement.manipulate import reshape
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.tir import nodes as n


@relax_pass("RewriteDataflowReshape", opt_level=1)
def rewrite_dataflow_reshape(mod: IRModule, context: PassContext) -> IRModule:
    """Use the same memory in another shape instead of a kernel that copies it.

        lv = R.call_tir(cls.reshape, (x,), out_sinfo=R.Tensor((8,), …))    →    lv = R.reshape(x, R.shape([8]))

    A view of a view is one of the first array, and a copy of the same shape vanishes. Only in dataflow blocks, and
    only where no call writes over either.
    """
    made = rewritten(mod, _Reshape)
    changed = {
        name: remove_all_unused(func)
        for name, func in made.items()
        if isinstance(func, Function) and func is not mod.get(name)
    }
    return made.with_functions({**made.functions, **changed}) if changed else made


class _Reshape(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._module = mod
        self._copies: dict[GlobalVar, bool] = {}
        self._overwritten: frozenset[Var] = frozenset()
        self._copied = False

    def visit_function_(self, op: Function) -> Any:
        self._overwritten |= overwritten_values(op)
        return super().visit_function_(op)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        held = {binding.var, *(node for node in walk(binding.value) if isinstance(node, Var))}
        self._copied = not self._overwritten.isdisjoint(held)  # a call writes over the copy, or what it is made of
        super().visit_var_binding_(binding)
        self._copied = False

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if self._copied or not self.builder_.current_block_is_dataflow() or not isinstance(call.op, Op):
            return call
        if call.op.name != "relax.call_tir" or not isinstance(call.args[1], Tuple) or len(call.args[1].fields) != 1:
            return call
        (source,), (result,) = call.args[1].fields, call.sinfo_args
        known = info_of(source)
        if not isinstance(result, TensorStructInfo) or result.shape is None or not isinstance(known, TensorStructInfo):
            return call
        if known.dtype != result.dtype or not self._is_copy(call.args[0]):
            return call
        first = self._first(source)
        return first if info_of(first) == result else reshape(first, result.shape)

    def _first(self, source: RelaxExpr) -> RelaxExpr:
        """Return what a view of a view lies in."""
        while isinstance(source, Var):
            value = self.builder_.lookup_binding(source)
            if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name != "relax.reshape":
                break
            inner = value.args[0]
            if isinstance(inner, DataflowVar) and not isinstance(source, DataflowVar):
                break  # it is seen in another block only
            source = inner
        return source

    def _is_copy(self, gvar: GlobalVar) -> bool:
        if gvar not in self._copies:
            func = self._module.get(gvar)
            self._copies[gvar] = isinstance(func, n.PrimFunc) and has_reshape_pattern(func)
        return self._copies[gvar]
