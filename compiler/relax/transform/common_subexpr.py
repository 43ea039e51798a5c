"""Values that are computed twice are computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.analysis.overwritten import overwritten_values
from compiler.relax.analysis.purity import contains_impure_call
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.transform.passes import relax_pass, rewritten


@relax_pass("EliminateCommonSubexpr", opt_level=1)
def eliminate_common_subexpr(mod: IRModule, context: PassContext, *, call_only: bool = False) -> IRModule:
    """Compute equal values once. `call_only` leaves tuples and their fields alone.

    lv = R.exp(x)                →    lv = R.exp(x)
    lv1 = R.exp(x)                    lv2 = R.add(lv, lv)
    lv2 = R.add(lv, lv1)

    A value that a call writes over stays one of its own.
    """
    return rewritten(mod, lambda own: _Eliminator(own, call_only))


class _Eliminator(PyExprMutator):
    def __init__(self, mod: IRModule, call_only: bool) -> None:
        super().__init__(mod)
        self._call_only = call_only
        self._known: dict[Hashable, r.Var] = {}
        self._overwritten: frozenset[r.Var] = frozenset()

    def visit_function_(self, op: r.Function) -> Any:
        kept, self._known = self._known, {}
        self._overwritten |= overwritten_values(op)
        try:
            return super().visit_function_(op)
        finally:
            self._known = kept

    def visit_with_new_scope(self, expr: RelaxExpr) -> r.SeqExpr:
        kept = dict(self._known)
        try:
            return super().visit_with_new_scope(expr)
        finally:
            self._known = kept

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        made = super().visit_dataflow_block_(block)
        self._known = {key: var for key, var in self._known.items() if not isinstance(var, r.DataflowVar)}
        return made

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        value = self.builder_.normalize_value(self.visit_expr(binding.value))
        key = None if binding.var in self._overwritten else self._key(value)
        known = None if key is None else self._known.get(key)
        if known is not None and (isinstance(binding.var, r.DataflowVar) or not isinstance(known, r.DataflowVar)):
            self.set_var_remap(binding.var.vid, known)
            return
        if known is not None:  # an output of the block must be one still
            self._bind(binding, known)
            return
        self._bind(binding, value)
        if key is not None:
            self._known[key] = self._remap.get(binding.var.vid, binding.var)

    def _bind(self, binding: r.VarBinding, value: RelaxExpr) -> None:
        if value is binding.value:
            self.builder_.emit_normalized(binding)
            return
        info = r.info_of(value)
        assert info is not None
        var = self.with_struct_info(binding.var, info)
        if var is not binding.var:
            self.set_var_remap(binding.var.vid, var)
        self.builder_.emit_normalized(r.VarBinding(var, value, binding.span))

    def _key(self, value: RelaxExpr) -> Hashable | None:
        """Return a key that equal values share; None for a value that must be computed each time."""
        match value:
            case r.Call() if not contains_impure_call(value):
                return _argument(value)
            case r.Tuple() | r.TupleGetItem() if not self._call_only:
                return _argument(value)
        return None


def _argument(expr: RelaxExpr) -> Hashable | None:
    match expr:
        case r.Var():
            return "var", expr
        case r.Constant():
            return "constant", expr.content
        case r.ShapeExpr() | r.PrimValue():
            return "number", type(expr), r.info_of(expr)
        case r.StringImm() | r.DataTypeImm():
            return "text", type(expr), expr.value
        case GlobalVar() | Op():
            return "function", expr
        case r.ExternFunc():
            return "extern", expr.global_symbol
        case r.Tuple():
            fields = tuple(map(_argument, expr.fields))
            return None if None in fields else ("tuple", fields)
        case r.TupleGetItem():
            inner = _argument(expr.tuple_value)
            return None if inner is None else ("item", inner, expr.index)
        case r.Call():
            parts = (_argument(expr.op), *map(_argument, expr.args))
            return None if None in parts else ("call", parts, expr.attrs, expr.sinfo_args)
    return None
