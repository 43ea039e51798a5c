"""Functions inside of functions become functions of the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.variables import free_symbolic_vars, free_vars
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes.symbols import symbols_set_by
from compiler.relax.op.execution.closures import make_closure
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.relax.utils import copy_with_new_vars


@relax_pass("LambdaLift")
def lambda_lift(mod: IRModule, context: PassContext) -> IRModule:
    """Move functions inside of functions to the module; captured values become parameters.

        def main(x, y):                        def main_inner(a, x): return R.add(a, x)
            def inner(a): return a + x    →    def main(x, y):
            return inner(y)                        return cls.main_inner(y, x)

    Where such a function is not only called, it becomes a closure: `R.make_closure(cls.main_inner, (x,))`.
    """
    return rewritten(mod, _Lifter)


@dataclass(frozen=True, slots=True)
class _Lifted:
    """A function of the module, and its arguments beyond the parameters that it had inside."""

    name: GlobalVar
    captured: tuple[RelaxExpr, ...]


class _Lifter(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._lifted: dict[r.Id, _Lifted] = {}
        self._around = "lifted"

    def visit_function_(self, op: r.Function) -> Any:
        self._around = str(op.attrs.get("global_symbol", self._around))
        return super().visit_function_(op)

    def visit_call_(self, op: r.Call) -> Any:
        known = self._lifted.get(op.op.vid) if isinstance(op.op, r.Var) else None
        if known is None:
            return super().visit_call_(op)
        args = [self.visit_expr(arg) for arg in op.args]
        more = [self.visit_expr(item) for item in known.captured]
        return r.Call(known.name, [*args, *more], op.attrs, op.sinfo_args, op.span)

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        if not isinstance(binding.value, r.Function) or binding.value.body is None:
            super().visit_var_binding_(binding)
            return
        lifted = self._lift(binding.var, binding.value)
        closure = self._closure(lifted)
        made = self.builder_.emit(closure, binding.var.name_hint)
        self.set_var_remap(binding.var.vid, made)

    def _closure(self, lifted: _Lifted) -> RelaxExpr:
        return make_closure(lifted.name, [self.visit_expr(item) for item in lifted.captured])

    def _lift(self, var: r.Var, func: r.Function) -> _Lifted:
        around = self._captured(var, func)
        params = [r.Var(item.name_hint, self._now(item).struct_info) for item in around]
        set_there = {symbol for param in (*func.params, *params) for symbol in symbols_set_by(param.struct_info)}
        inner = r.Function((*func.params, *around), func.body, func.ret_struct_info, func.is_pure)
        symbols = [symbol for symbol in free_symbolic_vars(inner) if symbol not in set_there]
        captured: list[RelaxExpr] = list(around)
        if symbols:
            params.append(r.Var("sizes", r.ShapeStructInfo(tuple(symbols))))
            captured.append(r.ShapeExpr(tuple(symbols)))
        own = [*func.params, *params]
        name = GlobalVar(self.builder_.get_unique_name(f"{self._around}_{var.name_hint}"))
        infos = tuple([param.struct_info for param in own])
        r.set_struct_info(name, r.FuncStructInfo(infos, func.ret_struct_info, func.is_pure))
        lifted = _Lifted(name, tuple(captured))
        self._lifted[var.vid] = lifted
        self._add(var, func, own, around, params, lifted)
        return lifted

    def _now(self, var: r.Var) -> r.Var:
        """The variable that stands for one of the original graph."""
        found: r.Var = self._remap.get(var.vid, var)
        return found

    def _captured(self, var: r.Var, func: r.Function) -> list[r.Var]:
        """The variables from around that the function needs, itself apart."""
        called = {id(node.op) for node in walk(func) if isinstance(node, r.Call)}
        found: dict[r.Var, None] = {}
        for item in free_vars(func):
            known = self._lifted.get(item.vid)
            if item is var:
                continue
            if known is None or id(item) not in called or _is_value(item, func):
                found[item] = None
            if known is not None:
                found.update(dict.fromkeys(more for more in known.captured if isinstance(more, r.Var)))
        return list(found)

    def _add(
        self, var: r.Var, func: r.Function, own: list[r.Var], around: list[r.Var], params: list[r.Var], lifted: _Lifted
    ) -> None:
        """Add the lifted function to the module."""
        kept = dict(self._remap)
        for item, param in zip(around, params):
            self.set_var_remap(item.vid, param)
        builder = self.builder_
        builder.begin_scope(own)
        builder._begin_binding_block()
        if _is_value(var, func):
            self.set_var_remap(var.vid, builder.emit(self._closure(lifted), var.name_hint))
        first = builder._end_block()
        body = self.visit_expr(func.body)
        builder.end_scope()
        self._remap = kept
        if first.bindings:
            made = type(body)((first, *body.blocks), body.body, body.span)
            r.set_struct_info(made, body.struct_info)
            body = made
        whole = r.Function(own, body, func.ret_struct_info, func.is_pure, None, func.span)
        builder._functions[lifted.name] = copy_with_new_vars(whole)


def _is_value(var: r.Var, func: r.Function) -> bool:
    """Whether a function uses the variable other than by calling it."""
    mentions = sum(node is var for node in walk(func))
    calls = sum(isinstance(node, r.Call) and node.op is var for node in walk(func))
    return mentions > calls
