"""Parameters that a function does not use go."""

from __future__ import annotations

from collections.abc import Callable

from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.analysis.variables import free_symbolic_vars
from compiler.relax.nodes import Call, Function, ShapeExpr, ShapeStructInfo, Var, info_of
from compiler.relax.nodes.unify import Values, unify
from compiler.relax.transform.functions import with_signature
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.relax.transform.private.internal import CallsFollow, internal_functions
from compiler.te.where import at
from compiler.tir import nodes as n


@relax_pass("RemoveUnusedParameters", opt_level=1)
def remove_unused_parameters(mod: IRModule, context: PassContext) -> IRModule:
    """Remove parameters that private functions do not use.

    def inner(x, y):            →    def inner(x):
        return R.exp(x)                  return R.exp(x)

    Dimensions that only such a parameter told are given as a shape.
    """
    functions = dict(mod.functions)
    rules: dict[GlobalVar, Callable[[Call], Call]] = {}
    for name, func in internal_functions(mod).items():
        used = {node for node in walk(func.body) if isinstance(node, Var)}
        kept = [param for param in func.params if param in used]
        if len(kept) == len(func.params):
            continue
        body = func.body
        without = Function(kept, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)
        symbols = tuple(free_symbolic_vars(without))
        if not symbols:
            params = kept
        elif len(kept) + 1 == len(func.params) and _is_shape(func, kept, symbols):
            continue  # it is what would be put in its place
        else:
            params = [*kept, Var("sizes", ShapeStructInfo(symbols))]
        functions[name] = with_signature(mod, func, params)
        rules[name] = _rule(func, used, symbols)
    if not rules:
        return mod
    return rewritten(mod.with_functions(functions), lambda own: CallsFollow(own, rules))


def _is_shape(func: Function, kept: list[Var], symbols: tuple[n.Var, ...]) -> bool:
    (gone,) = [param for param in func.params if param not in kept]
    info = gone.struct_info
    return isinstance(info, ShapeStructInfo) and info.values == symbols


def _rule(func: Function, used: set[Var], symbols: tuple[n.Var, ...]) -> Callable[[Call], Call]:
    def rule(call: Call) -> Call:
        args = [arg for arg, param in zip(call.args, func.params) if param in used]
        if symbols:
            values = Values()
            for param, arg in zip(func.params, call.args):
                unify(param.struct_info, info_of(arg), values)
            missing = [var.name for var in symbols if var not in values.found]
            if missing:
                raise IRError(f"the call does not tell the dimensions {', '.join(missing)}{at(call.span)}")
            args.append(ShapeExpr(tuple([values.found[var] for var in symbols])))
        return Call(call.op, args, call.attrs, call.sinfo_args, call.span)

    return rule
