"""Copies of graphs with variables or dimensions replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.function import BaseFunc
from compiler.relax.nodes.base import Expr, StructInfo, info_of
from compiler.relax.nodes.binding import Binding, BindingBlock, If, MatchCast, SeqExpr, VarBinding
from compiler.relax.nodes.dims import replaced, simplified
from compiler.relax.nodes.expr import Call, DataflowVar, PrimValue, Tuple, TupleGetItem, Var
from compiler.relax.nodes.shape import PrimStructInfo, ShapeExpr, ShapeStructInfo
from compiler.relax.nodes.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.base import set_fields
from compiler.tir.visit import substitute

FuncT = TypeVar("FuncT", bound=BaseFunc)


class Renewal:
    """Copies graphs. Variables are replaced by `variables`, dimensions by `symbols`; StructInfo follows.

    A variable whose StructInfo changes is defined anew under the same `Id`; with `fresh`, every variable is defined
    anew, under an `Id` of its own. What does not change is not copied.
    """

    def __init__(
        self,
        variables: Mapping[Var, RelaxExpr] | None = None,
        symbols: Mapping[n.Var, PrimExpr] | None = None,
        fresh: bool = False,
    ) -> None:
        self.variables: dict[Var, RelaxExpr] = dict(variables or {})
        self.symbols: dict[n.Var, PrimExpr] = dict(symbols or {})
        self._fresh = fresh
        self._infos: dict[int, tuple[StructInfo, StructInfo]] = {}

    # ---------------------------------------------------------------------------- StructInfo

    def prim(self, value: PrimExpr) -> PrimExpr:
        """A scalar expression, with dimensions replaced."""
        if value.dtype == "int64":
            return replaced(value, self.symbols.get)
        return substitute(value, self.symbols)

    def prims(self, values: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        made = tuple([self.prim(value) for value in values])
        return values if all(a is b for a, b in zip(values, made)) else made

    def info(self, info: StructInfo) -> StructInfo:
        """`info`, with dimensions replaced."""
        held = self._infos.get(id(info))
        if held is None:
            held = self._infos[id(info)] = info, self._info(info)
        return held[1]

    def _info(self, info: StructInfo) -> StructInfo:
        match info:
            case TensorStructInfo() if info.shape is not None:
                shape = self.expr(info.shape)
                if shape is info.shape:
                    return info
                known = info_of(shape)
                if not isinstance(known, ShapeStructInfo):
                    return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim, info.span)
                return TensorStructInfo(shape, info.dtype, info.vdevice, -1, info.span)
            case ShapeStructInfo() if info.values is not None:
                values = self.prims(info.values)
                return info if values is info.values else ShapeStructInfo(values, -1, info.span)
            case PrimStructInfo() if info.value is not None:
                value = self.prim(info.value)
                return info if value is info.value else PrimStructInfo(info.dtype, value, info.span)
            case TupleStructInfo():
                fields = self._infos_of(info.fields)
                return info if fields is info.fields else TupleStructInfo(fields, info.span)
            case FuncStructInfo() if info.params is not None:
                params, ret = self._infos_of(info.params), self.info(info.ret)
                same = params is info.params and ret is info.ret
                return info if same else FuncStructInfo(params, ret, info.purity, info.span)
        return info

    def _infos_of(self, infos: tuple[StructInfo, ...]) -> tuple[StructInfo, ...]:
        made = tuple([self.info(item) for item in infos])
        return infos if all(a is b for a, b in zip(infos, made)) else made

    # --------------------------------------------------------------------------- expressions

    def expr(self, expr: RelaxExpr) -> Any:
        """`expr`, with variables and dimensions replaced."""
        if isinstance(expr, Var):
            return self.variables.get(expr, expr)
        rule = _RULES.get(type(expr))
        if rule is not None:
            return self._informed(expr, rule(self, expr))
        if isinstance(expr, BaseFunc):
            return self.function(expr)
        if isinstance(expr, GlobalVar | Op) or (isinstance(expr, Expr) and not expr.CHILDREN):
            return expr
        raise IRError(f"no copy of a {type(expr).__name__} can be made: there is no rule for it")

    def _informed(self, old: RelaxExpr, new: RelaxExpr) -> RelaxExpr:
        """`new`, which replaces `old`, with the StructInfo that follows from `old`'s."""
        known = info_of(old)
        if new is not old and known is not None and info_of(new) is None:
            set_fields(new, struct_info_=self.info(known))
        return new

    def exprs(self, exprs: tuple[RelaxExpr, ...]) -> tuple[RelaxExpr, ...]:
        made = tuple([self.expr(item) for item in exprs])
        return exprs if all(a is b for a, b in zip(exprs, made)) else made

    def _call(self, call: Call) -> RelaxExpr:
        op, args, infos = self.expr(call.op), self.exprs(call.args), self._infos_of(call.sinfo_args)
        if op is call.op and args is call.args and infos is call.sinfo_args:
            return call
        return Call(op, args, call.attrs, infos, call.span)

    def _tuple(self, value: Tuple) -> RelaxExpr:
        fields = self.exprs(value.fields)
        return value if fields is value.fields else Tuple(fields, value.span)

    def _item(self, item: TupleGetItem) -> RelaxExpr:
        value = self.expr(item.tuple_value)
        if value is item.tuple_value:
            return item
        if isinstance(value, Tuple):
            return value.fields[item.index]
        return TupleGetItem(value, item.index, item.span)

    def _shape(self, shape: ShapeExpr) -> RelaxExpr:
        values = self.prims(shape.values)
        return shape if values is shape.values else ShapeExpr(values, shape.span)

    def _prim_value(self, value: PrimValue) -> RelaxExpr:
        inner = self.prim(value.value)
        if inner is value.value:
            return value
        return PrimValue(simplified(inner) if inner.dtype == "int64" else inner, value.span)

    def _if(self, expr: If) -> RelaxExpr:
        cond, yes, no = self.expr(expr.cond), self.expr(expr.true_branch), self.expr(expr.false_branch)
        same = cond is expr.cond and yes is expr.true_branch and no is expr.false_branch
        return expr if same else If(cond, yes, no, expr.span)

    def _seq(self, seq: SeqExpr) -> RelaxExpr:
        blocks = tuple([self.block(block) for block in seq.blocks])
        body = self.expr(seq.body)
        if body is seq.body and all(a is b for a, b in zip(blocks, seq.blocks)):
            return seq
        return SeqExpr(blocks, body, seq.span)

    # ------------------------------------------------------------------------------ bindings

    def define(self, var: Var) -> Var:
        """The variable defined in the place of `var`."""
        known = var.struct_info_
        info = None if known is None else self.info(known)
        if info is known and not self._fresh:
            return var
        kind = DataflowVar if isinstance(var, DataflowVar) else Var
        made = kind(var.name_hint if self._fresh else var.vid, info, var.span)
        self.variables[var] = made
        return made

    def block(self, block: BindingBlock) -> BindingBlock:
        """A block, with its bindings copied in order."""
        bindings = tuple([self.binding(binding) for binding in block.bindings])
        if all(a is b for a, b in zip(bindings, block.bindings)):
            return block
        return type(block)(bindings, block.span)

    def binding(self, binding: Binding) -> Binding:
        """A binding; uses of its variable further on follow."""
        value = self.expr(binding.value)
        if isinstance(binding, MatchCast):
            info = self.info(binding.struct_info)
            var = self.define(binding.var)
            same = value is binding.value and info is binding.struct_info and var is binding.var
            return binding if same else MatchCast(var, value, info, binding.span)
        var = self.define(binding.var)
        same = value is binding.value and var is binding.var
        return binding if same else VarBinding(var, value, binding.span)

    def function(self, func: FuncT) -> FuncT:
        """A function. Parameters that are among the variables to replace are parameters no more."""
        whole: Any = func
        params = tuple([self.define(param) for param in whole.params if param not in self.variables])
        body = None if whole.body is None else self.expr(whole.body)
        ret = self.info(whole.ret_struct_info)
        same = len(params) == len(whole.params) and all(a is b for a, b in zip(params, whole.params))
        if same and body is whole.body and ret is whole.ret_struct_info:
            return func
        if body is None:
            return type(whole).create_empty(params, ret, whole.is_pure, whole.attrs, whole.span)  # type: ignore[no-any-return]
        return type(whole)(params, body, ret, whole.is_pure, whole.attrs, whole.span)  # type: ignore[no-any-return]


_RULES: dict[type, Callable[[Renewal, Any], RelaxExpr]] = {
    Call: Renewal._call,
    Tuple: Renewal._tuple,
    TupleGetItem: Renewal._item,
    ShapeExpr: Renewal._shape,
    PrimValue: Renewal._prim_value,
    If: Renewal._if,
    SeqExpr: Renewal._seq,
}
