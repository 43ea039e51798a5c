"""Questions about Relay programs, and the passes over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.faces.relay.nodes import Expr, Function, Let, Var, const
from compiler.faces.relay.order import post_order
from compiler.faces.relay.translate import to_relax
from compiler.faces.relay.types import FuncType, TupleType, Type, TypeVar
from compiler.ir.module import IRModule
from compiler.ir.transform.passes import Pass, module_pass


def InferType() -> Pass:
    """A pass that finds the types of a module, and raises IRError where something does not fit."""

    def infer(module: IRModule, context: object) -> IRModule:
        to_relax(module)
        return module

    found: Pass = module_pass(infer, opt_level=0, name="InferType")
    return found


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """`func` with constants in the place of the parameters that `params` names."""
    body: Expr = func.body
    for param in func.params:
        if param.name_hint in params:
            body = Let(param, const(params[param.name_hint]), body)
    rest = tuple(param for param in func.params if param.name_hint not in params)
    return Function(rest, body, func.ret_type, func.type_params, func.attrs)


def _types(value: Any) -> list[Type]:
    match value:
        case Function():
            kinds = [param.type_annotation for param in value.params]
            return [kind for kind in [*kinds, value.ret_type] if kind is not None]
        case Var() if value.type_annotation is not None:
            return [value.type_annotation]
    return []


def _variables(kind: Type) -> list[TypeVar]:
    match kind:
        case TypeVar():
            return [kind]
        case TupleType():
            return [var for item in kind.fields for var in _variables(item)]
        case FuncType():
            return [var for item in (*kind.arg_types, kind.ret_type) for var in _variables(item)]
    return []


def all_type_vars(expr: Any, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables of an expression or type, in post-order."""
    if isinstance(expr, Type):
        return list(dict.fromkeys(_variables(expr)))
    found = [var for item in post_order([expr]) for kind in _types(item) for var in _variables(kind)]
    return list(dict.fromkeys(found))


def free_type_vars(expr: Any, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables of an expression or type that no function in it binds, in post-order."""
    bound: set[Any] = set(expr.type_params) if isinstance(expr, FuncType) else set()
    if isinstance(expr, Expr):
        bound = {var for item in post_order([expr]) if isinstance(item, Function) for var in item.type_params}
    return [var for var in all_type_vars(expr) if var not in bound]


def well_formed(expr: Expr) -> bool:
    """Whether no variable is bound twice."""
    bound = [var for item in post_order([expr]) for var in _bound_here(item)]
    return len(bound) == len(set(bound))


def _bound_here(item: Any) -> list[Var]:
    if isinstance(item, Function):
        return list(item.params)
    return [item.var] if isinstance(item, Let) else []
