"""Relay programs as relax programs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any

from compiler.errors import ArgumentError, IRError
from compiler.faces.relay import nodes as relay
from compiler.faces.relay import op as _op  # noqa: F401  (fills the table)
from compiler.faces.relay.nodes import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from compiler.faces.relay.order import children, free_vars, post_order
from compiler.faces.relay.table import lower
from compiler.faces.relay.types import Type, struct_info, type_of
from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.relax import nodes as relax
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import convert_to_expr, info_of

Known = MutableMapping[int, Any]
"""What expressions became, by identity."""


def to_relax(mod: IRModule | Expr, params: Mapping[str, Any] | None = None) -> IRModule:
    """A Relay module, or an expression as its function "main", as a relax module.

    `params`: values of parameters of "main" by name, which become constants. Raises IRError or ArgumentError, each
    naming the operator.
    """
    module = mod if isinstance(mod, IRModule) else IRModule({"main": mod.as_function()})
    made = BlockBuilder(IRModule({}, module.attrs))
    for name, func in module.items():
        if not isinstance(func, Function):
            raise IRError(f"{name.name_hint} is no function of Relay, but a {type(func).__name__}")
        _Translation(made, module).function(name.name_hint, func, params if name.name_hint == "main" else None)
    return made.get()


class _Translation:
    """The translation of one function into a builder."""

    def __init__(self, builder: BlockBuilder, module: IRModule) -> None:
        self._builder = builder
        self._module = module
        self._alive: list[Any] = []  # expressions whose identity is a key

    def function(self, name: str, func: Function, params: Mapping[str, Any] | None) -> None:
        """Add `func` to the builder's module."""
        bound = dict(params or {})
        known: Known = {}
        own: list[relax.Var] = []
        for param in func.params:
            if param.name_hint in bound:
                known[id(param)] = relay_constant(bound.pop(param.name_hint))
                continue
            if param.type_annotation is None:
                raise IRError(
                    f"the parameter {param.name_hint} of {name} has no type",
                    hint='relay.var("x", shape=(1, 3), dtype="float32")',
                )
            made = relax.Var(param.name_hint, struct_info(param.type_annotation))
            known[id(param)] = made
            own.append(made)
        with self._builder.function(name, own):
            if _is_straight(func.body):
                with self._builder.dataflow():
                    result = self._builder.emit_output(self._value(func.body, known))
            else:
                result = self._builder.emit(self._value(func.body, known))
            self._builder.emit_func_output(result)

    def _value(self, expr: Any, known: Known) -> Any:
        """Return what `expr` becomes, its parts first. Only functions and branches recurse."""
        while isinstance(expr, Let):
            known[id(expr.var)] = self._local(expr, known) if isinstance(expr.value, Function) else self._emit(
                self._value(expr.value, known), expr.var.name_hint
            )  # fmt: skip
            expr = expr.body
        for item in post_order([expr], lambda part: () if id(part) in known else _here(part)):
            if id(item) not in known:
                known[id(item)] = self._one(item, known)
                self._alive.append(item)
        return known[id(expr)]

    def _one(self, expr: Any, known: Known) -> Any:
        match expr:
            case Constant():
                return relax.Constant(expr.data)
            case Call():
                return self._emit(self._call(expr, [known[id(arg)] for arg in expr.args], known))
            case Tuple():
                return self._emit(relax.Tuple(tuple(known[id(item)] for item in expr.fields)))
            case TupleGetItem():
                return self._emit(relax.TupleGetItem(known[id(expr.tuple_value)], int(expr.index)))
            case If():
                return self._emit(self._if(expr, known))
            case Let():
                return self._value(expr, known)
            case GlobalVar():
                return GlobalVar(expr.name_hint)
            case Var():
                raise IRError(f"the variable {expr.name_hint} is not bound", hint="make it a parameter of the function")
            case Function():
                raise IRError("a function is a value here", hint="call it, or bind it by relay.Let")
        raise IRError(f"{type(expr).__name__} is no expression of Relay")

    def _call(self, call: Call, args: list[Any], known: Known) -> Any:
        callee = call.op
        if isinstance(callee, Op):
            try:
                found = lower(call, args)
                return self._emit(relax.Tuple(found) if isinstance(found, tuple) else found)
            except (IRError, ArgumentError, ValueError, TypeError, KeyError) as error:
                raise IRError(f"relay.{callee.name}: {error}") from error
        if isinstance(callee, Function):
            if len(args) != len(callee.params):
                raise IRError(f"a function of {len(callee.params)} parameters is called with {len(args)}")
            inner = ChainMap({id(param): arg for param, arg in zip(callee.params, args)}, known)
            return self._value(callee.body, inner)
        if isinstance(callee, GlobalVar):
            return self._global(callee, args)
        return relax.Call(known[id(callee)], args)

    def _global(self, callee: GlobalVar, args: list[Any]) -> Any:
        func = self._module.get(callee)
        if not isinstance(func, Function):
            raise IRError(f"the module has no function {callee.name_hint!r}")
        result = func.ret_type if func.ret_type is not None else _type_of_function(func, self._module)
        return relax.Call(GlobalVar(callee.name_hint), args, None, [struct_info(result)])

    def _if(self, expr: If, known: Known) -> Any:
        branches = []
        for branch in (expr.true_branch, expr.false_branch):
            self._builder.begin_scope(None)
            self._builder._begin_binding_block()
            value = self._builder.normalize_argument(convert_to_expr(self._value(branch, ChainMap({}, known))))
            block = self._builder._end_block()
            self._builder.end_scope()
            branches.append(relax.SeqExpr((block,) if block.bindings else (), value))
        return relax.If(known[id(expr.cond)], branches[0], branches[1])

    def _local(self, let: Let, known: Known) -> Any:
        """A function bound by a let, which may call itself: it is called by name, so it becomes one of relax."""
        func = let.value
        assert isinstance(func, Function)
        if func.ret_type is None:
            raise IRError(f"the local function {let.var.name_hint} has no ret_type", hint="give the function one")
        own = [relax.Var(param.name_hint, struct_info(_annotated(param))) for param in func.params]
        info = relax.FuncStructInfo([param.struct_info for param in own], struct_info(func.ret_type))
        itself = relax.Var(let.var.name_hint, info)
        inner = ChainMap({id(let.var): itself, **{id(p): v for p, v in zip(func.params, own)}}, known)
        self._builder.begin_scope(own)
        self._builder._begin_binding_block()
        value = self._builder.normalize_argument(convert_to_expr(self._value(func.body, inner)))
        block = self._builder._end_block()
        self._builder.end_scope()
        made = relax.Function(own, relax.SeqExpr((block,), value), struct_info(func.ret_type))
        self._builder.emit_normalized(relax.VarBinding(itself, made))
        return itself

    def _emit(self, value: Any, name: str = "") -> Any:
        if isinstance(value, relax.Var | relax.Constant):
            return value
        return self._builder.emit(value, name)


def _here(expr: Any) -> tuple[Any, ...]:
    """The parts of an expression that are computed before it, in the same scope."""
    match expr:
        case If():
            return (expr.cond,)
        case Let() | Function():
            return ()
        case Call() if isinstance(expr.op, Function):
            return expr.args
    return children(expr)


def _is_straight(body: Any) -> bool:
    """Whether all of a function's values can stand in a dataflow block."""
    kept = [item for item in post_order([body]) if isinstance(item, If | Let | Function)]
    return not any(not isinstance(item, Let) or isinstance(item.value, Function) for item in kept)


def _annotated(param: Var) -> Type:
    if param.type_annotation is None:
        raise IRError(f"the parameter {param.name_hint} has no type")
    return param.type_annotation


def relay_constant(value: Any) -> relax.Constant:
    """An array as a constant of relax."""
    return relax.Constant(relay.const(value).data)


# --------------------------------------------------------------------- what expressions ask


def _type_of_function(func: Function, module: IRModule) -> Type:
    return checked_type(func.body, module)


def checked_type(expr: Expr, module: IRModule | None = None) -> Type:
    """Return what an expression's value is."""
    if isinstance(expr, Var):
        return _annotated(expr)
    if isinstance(expr, Function):
        func = expr
    else:
        func = Function(tuple(free_vars(expr)), expr)
    builder = BlockBuilder()
    _Translation(builder, module or IRModule({})).function("main", func, None)
    made = builder.get()["main"]
    assert isinstance(made, relax.Function)
    info = info_of(made) if isinstance(expr, Function) else made.ret_struct_info
    assert info is not None
    return type_of(info)


relay.use_hooks(type=checked_type, function=lambda expr: Function(tuple(free_vars(expr)), expr))
