"""The StructInfo that calls of functions return."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.relax.nodes import Call, FuncStructInfo, StructInfo, describe, info_of
from compiler.relax.nodes.symbols import symbols_in
from compiler.relax.nodes.unify import Values, unify
from compiler.relax.struct_info.erase import erase
from compiler.te.where import at


def call_result(call: Call, callee: FuncStructInfo, builder: Any = None) -> StructInfo:
    """Return what `call` of a function described by `callee` returns.

    Raises IRError, with the call's line, if the number of arguments differs or one certainly does not fit.
    """
    if callee.params is None:
        return callee.ret if callee.derive_func is None else callee.derive_func(call, builder)
    name = describe(call.op)
    if len(call.args) != len(callee.params):
        raise IRError(
            f"{name} takes {len(callee.params)} arguments, got {len(call.args)}{at(call.span)}", hint=f"it is {callee}"
        )
    own = list(dict.fromkeys(var for param in callee.params for var in symbols_in(param)))
    values = Values(own)
    for position, (param, arg) in enumerate(zip(callee.params, call.args)):
        reason = unify(param, info_of(arg), values)
        if reason is not None:
            raise IRError(f"argument {position} does not fit {name}: {reason}{at(call.span)}", hint=f"it is {callee}")
    mine = frozenset(own)
    return erase(callee.ret, lambda var: values.found.get(var) if var in mine else var, lambda var: var)
