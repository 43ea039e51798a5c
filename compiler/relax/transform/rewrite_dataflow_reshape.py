"""Kernels that only copy memory as it lies become another view of it."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.analysis.reshape_pattern import has_reshape_pattern
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, TensorStructInfo, Tuple, info_of
from compiler.relax.op.movement.manipulate import reshape
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.tir import nodes as n


@relax_pass("RewriteDataflowReshape", opt_level=1)
def rewrite_dataflow_reshape(mod: IRModule, context: PassContext) -> IRModule:
    """Take the same memory in another shape in the place of a kernel that copies it.

        lv = R.call_tir(cls.reshape, (x,), out_sinfo=R.Tensor((8,), …))    →    lv = R.reshape(x, R.shape([8]))

    Only in dataflow blocks, where nothing changes `x`.
    """
    return rewritten(mod, _Reshape)


class _Reshape(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._module = mod
        self._copies: dict[GlobalVar, bool] = {}

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not self.builder_.current_block_is_dataflow() or not isinstance(call.op, Op):
            return call
        if call.op.name != "relax.call_tir" or not isinstance(call.args[1], Tuple) or len(call.args[1].fields) != 1:
            return call
        (source,), (result,) = call.args[1].fields, call.sinfo_args
        known = info_of(source)
        if not isinstance(result, TensorStructInfo) or result.shape is None or not isinstance(known, TensorStructInfo):
            return call
        return reshape(source, result.shape) if known.dtype == result.dtype and self._is_copy(call.args[0]) else call

    def _is_copy(self, gvar: GlobalVar) -> bool:
        if gvar not in self._copies:
            func = self._module.get(gvar)
            self._copies[gvar] = isinstance(func, n.PrimFunc) and has_reshape_pattern(func)
        return self._copies[gvar]
