"""Bindings that only give a value another name go."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes.symbols import symbols_set_by
from compiler.relax.transform.passes import relax_pass, rewritten


@relax_pass("CanonicalizeBindings", opt_level=1)
def canonicalize_bindings(mod: IRModule, context: PassContext) -> IRModule:
    """Remove bindings that only name a value again, and take fields out of tuples that were just made.

        y = x                        →    lv = R.add(x, z)
        t = (y, z)
        lv = R.add(t[0], t[1])

    A match_cast that checks what is known already goes, too.
    """
    return rewritten(mod, _Canonical)


class _Canonical(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._inside: set[r.Var] = set()  # variables of the current dataflow block

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        kept, self._inside = self._inside, set()
        try:
            return super().visit_dataflow_block_(block)
        finally:
            self._inside = kept

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        value = self.builder_.normalize_value(self.visit_expr(binding.value))
        if isinstance(value, r.Var) and self._may_stand_for(value, binding.var):
            self.set_var_remap(binding.var.vid, value)
            return
        if value is binding.value:
            self.builder_.emit_normalized(binding)
            made = binding.var
        else:
            info = r.info_of(value)
            assert info is not None
            made = self.with_struct_info(binding.var, info)
            if made is not binding.var:
                self.set_var_remap(binding.var.vid, made)
            self.builder_.emit_normalized(r.VarBinding(made, value, binding.span))
        self._inside.add(made)

    def visit_match_cast_(self, binding: r.MatchCast) -> None:
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        known = r.info_of(value)
        new = [var for var in symbols_set_by(binding.struct_info) if var not in self.builder_.symbols]
        sure = known is not None and not new and binding.struct_info.is_base_of(known)
        if sure and isinstance(value, r.Var) and self._may_stand_for(value, binding.var):
            self.set_var_remap(binding.var.vid, value)
            return
        super().visit_match_cast_(binding)
        self._inside.add(self._remap.get(binding.var.vid, binding.var))

    def visit_tuple_getitem_(self, op: r.TupleGetItem) -> Any:
        item: Any = super().visit_tuple_getitem_(op)
        if not isinstance(item, r.TupleGetItem) or not isinstance(item.tuple_value, r.Var):
            return item
        held = self.lookup_binding(item.tuple_value)
        if isinstance(held, r.Tuple) and self._is_seen(held.fields[item.index]):
            return held.fields[item.index]
        return item

    def visit_tuple_(self, op: r.Tuple) -> Any:
        """A tuple of all fields of another, in order, is that one."""
        made: Any = super().visit_tuple_(op)
        parts = [self.lookup_binding(item) if isinstance(item, r.Var) else None for item in made.fields]
        first = parts[0] if parts else None
        if not isinstance(first, r.TupleGetItem) or not isinstance(first.tuple_value, r.Var):
            return made
        whole = first.tuple_value
        info = r.info_of(whole)
        if not isinstance(info, r.TupleStructInfo) or len(info.fields) != len(parts) or not self._is_seen(whole):
            return made
        same = all(
            isinstance(part, r.TupleGetItem) and part.tuple_value is whole and part.index == index
            for index, part in enumerate(parts)
        )
        return whole if same else made

    def _is_seen(self, expr: RelaxExpr) -> bool:
        return not isinstance(expr, r.DataflowVar) or expr in self._inside

    def _may_stand_for(self, value: r.Var, var: r.Var) -> bool:
        """Whether uses of `var` may become uses of `value`.
        An output of a block must be visible after it."""
        if isinstance(value, r.DataflowVar) and not isinstance(var, r.DataflowVar):
            return False
        return r.info_of(value) == var.struct_info_
