"""Results that no caller uses are not computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Function, Tuple, TupleGetItem, TupleStructInfo, Var, VarBinding
from compiler.relax.transform.functions import with_signature
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.relax.transform.private.internal import internal_functions


@relax_pass("RemoveUnusedOutputs", opt_level=1)
def remove_unused_outputs(mod: IRModule, context: PassContext) -> IRModule:
    """Remove results of private functions that no caller uses, and what is computed only for them.

    def inner(x):                         →    def inner(x):
        return (R.exp(x), R.tanh(x))               return R.exp(x)
    def main(x):                               def main(x):
        return inner(x)[0]                         return inner(x)
    """
    kept = {name: used for name, used in _used_outputs(mod).items() if len(used) < _count(mod[name])}
    if not kept:
        return mod
    functions = dict(mod.functions)
    for name, used in kept.items():
        func = mod[name]
        assert isinstance(func, Function)
        result = func.body.body
        fields: list[RelaxExpr] = []
        for index in used:
            fields.append(result.fields[index] if isinstance(result, Tuple) else TupleGetItem(result, index))
        body = fields[0] if len(fields) == 1 else Tuple(tuple(fields))
        functions[name] = remove_all_unused(with_signature(mod, func, func.params, body=body))
    return rewritten(mod.with_functions(functions), lambda own: _Callers(own, kept))


def _count(func: Any) -> int:
    info = func.ret_struct_info
    return len(info.fields) if isinstance(info, TupleStructInfo) else 0


def _used_outputs(mod: IRModule) -> dict[GlobalVar, list[int]]:
    """The fields of each private function's result that callers take.
    Functions whose whole result is taken are left out."""
    found: dict[GlobalVar, set[int]] = {
        name: set()
        for name, func in internal_functions(mod).items()
        if isinstance(func.ret_struct_info, TupleStructInfo)
    }
    for func in mod.values():
        if not isinstance(func, Function):
            continue
        results = {
            node.var: node.value.op
            for node in walk(func)
            if isinstance(node, VarBinding) and isinstance(node.value, Call) and isinstance(node.value.op, GlobalVar)
        }
        taken = [node for node in walk(func) if isinstance(node, TupleGetItem)]
        mentions = [node for node in walk(func) if isinstance(node, Var) and node in results]
        fields = [node for node in taken if isinstance(node.tuple_value, Var) and node.tuple_value in results]
        whole = list(mentions)
        for item in fields:
            assert isinstance(item.tuple_value, Var)
            name = results[item.tuple_value]
            assert isinstance(name, GlobalVar)
            whole.remove(item.tuple_value)
            if name in found:
                found[name].add(item.index)
        for var in whole:
            found.pop(results[var], None)
    return {name: sorted(used) for name, used in found.items()}


class _Callers(PyExprMutator):
    def __init__(self, mod: IRModule, kept: Mapping[GlobalVar, list[int]]) -> None:
        super().__init__(mod)
        self._kept = kept

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, GlobalVar) or call.op not in self._kept:
            return call
        return Call(call.op, call.args, call.attrs, call.sinfo_args, call.span)  # of which nothing is known yet

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Any:
        value = self.visit_expr(op.tuple_value)
        call = self.lookup_binding(value) if isinstance(value, Var) else None
        used = self._kept.get(call.op) if isinstance(call, Call) and isinstance(call.op, GlobalVar) else None
        if used is None:
            return op if value is op.tuple_value else TupleGetItem(value, op.index, op.span)
        return value if len(used) == 1 else TupleGetItem(value, used.index(op.index), op.span)
