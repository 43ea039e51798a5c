"""Replace calls of operators, one rule an operator. Most passes that rewrite operators use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.relax.analysis.compile_time import computable_at_compile_time
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Function, Id, TensorStructInfo, Tuple, TupleGetItem, Var, info_of
from compiler.relax.transform.passes import rewritten
from compiler.tir.nodes import PrimExpr

Rule = Callable[["CallRewriter", Call], RelaxExpr | None]
"""What stands in the place of a call in normal form; None leaves it."""


class CallRewriter(PyExprMutator):
    """Apply a rule to each call of an operator. Rules look through variables with `call_of`."""

    def __init__(self, mod: IRModule, rules: Mapping[str, Rule]) -> None:
        super().__init__(mod)
        self._rules = rules
        self._early: set[Id] = set()
        self._uses: Counter[Id] = Counter()
        self.function: Function | None = None

    def visit_function_(self, op: Function) -> Any:
        outer = self._early, self._uses, self.function
        inputs = op.attrs.get("num_input")
        known = [] if inputs is None else [*op.params[int(inputs) :], *computable_at_compile_time(op)]
        self._early, self.function = {var.vid for var in known}, op
        self._uses = Counter(node.vid for node in walk(op.body) if isinstance(node, Var)) if op.body else Counter()
        try:
            made: Any = super().visit_function_(op)
        finally:
            self._early, self._uses, self.function = outer
        return made if made is op else remove_all_unused(made)

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        rule = self._rules.get(call.op.name) if isinstance(call.op, Op) else None
        if rule is None:
            return call
        normal = self.builder_.normalize(call)
        if not isinstance(normal, Call) or not isinstance(normal.op, Op):
            return normal
        made = rule(self, normal)
        return normal if made is None else made

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Any:
        item: Any = super().visit_tuple_getitem_(op)
        whole = self.value_of(item.tuple_value)
        return whole.fields[item.index] if isinstance(whole, Tuple) else item

    def uses(self, expr: RelaxExpr) -> int:
        """How often the function mentions a variable."""
        return self._uses[expr.vid] if isinstance(expr, Var) else 0

    def call_of(self, expr: RelaxExpr, name: str) -> Call | None:
        """Return the call of the operator `name` that computed a value, if there is one."""
        value = self.value_of(expr)
        return value if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == name else None

    def value_of(self, expr: RelaxExpr) -> RelaxExpr:
        """Return what a variable is bound to. Further names of the value are looked through."""
        while isinstance(expr, Var):
            found = self.lookup_binding(expr)
            if found is None:
                break
            expr = found
        return expr

    def is_early(self, expr: RelaxExpr) -> bool:
        """Whether a value follows from the function's weights alone: parameters behind the first "num_input"."""
        return isinstance(expr, Var) and expr.vid in self._early


def rewrite_calls(mod: IRModule, rules: Mapping[str, Rule]) -> IRModule:
    """Return `mod` with calls replaced by rules, which are found by the operator's name.
    Unused values are removed."""
    return rewritten(mod, lambda own: CallRewriter(own, rules))


def shape_of(expr: RelaxExpr) -> tuple[PrimExpr, ...] | None:
    """The dimensions of a tensor, None where they are not known."""
    info = info_of(expr)
    return info.dims if isinstance(info, TensorStructInfo) else None
