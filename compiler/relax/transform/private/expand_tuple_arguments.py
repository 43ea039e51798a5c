"""A parameter that is a tuple becomes a parameter for each of its fields."""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Binding, Call, StructInfo, Tuple, TupleGetItem, TupleStructInfo, Var, VarBinding
from compiler.relax.transform.functions import with_signature
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.relax.transform.private.internal import CallsFollow, internal_functions


@relax_pass("ExpandTupleArguments", opt_level=1)
def expand_tuple_arguments(mod: IRModule, context: PassContext) -> IRModule:
    """Pass private functions the fields of tuples as separate arguments.

    def inner(pair):                 →    def inner(pair_0, pair_1):
        return pair[0] + pair[1]              pair = (pair_0, pair_1)
                                              return pair[0] + pair[1]
    """
    functions = dict(mod.functions)
    rules: dict[GlobalVar, Callable[[Call], Call]] = {}
    for name, func in internal_functions(mod).items():
        if not any(isinstance(param.struct_info, TupleStructInfo) for param in func.params):
            continue
        params: list[Var] = []
        first: list[Binding] = []
        for param in func.params:
            if isinstance(param.struct_info, TupleStructInfo):
                first.append(VarBinding(param, _taken_apart(param.name_hint, param.struct_info, params)))
            else:
                params.append(param)
        functions[name] = with_signature(mod, func, params, first)
        rules[name] = _rule([param.struct_info for param in func.params])
    if not rules:
        return mod
    return rewritten(mod.with_functions(functions), lambda own: CallsFollow(own, rules))


def _taken_apart(name: str, info: StructInfo, params: list[Var]) -> RelaxExpr:
    """Add a parameter for each part of a value to `params`; return the whole."""
    if not isinstance(info, TupleStructInfo):
        params.append(Var(name, info))
        return params[-1]
    return Tuple(tuple([_taken_apart(f"{name}_{index}", item, params) for index, item in enumerate(info.fields)]))


def _rule(infos: list[StructInfo]) -> Callable[[Call], Call]:
    def rule(call: Call) -> Call:
        args: list[RelaxExpr] = []
        for arg, info in zip(call.args, infos):
            _flatten(arg, info, args)
        return Call(call.op, args, call.attrs, call.sinfo_args, call.span)

    return rule


def _flatten(arg: RelaxExpr, info: StructInfo, args: list[RelaxExpr]) -> None:
    if not isinstance(info, TupleStructInfo):
        args.append(arg)
        return
    for index, item in enumerate(info.fields):
        field = arg.fields[index] if isinstance(arg, Tuple) else TupleGetItem(arg, index)
        _flatten(field, item, args)
