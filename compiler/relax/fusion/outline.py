"""Bindings of a dataflow block as a function of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.relax.utils import copy_with_new_vars
from compiler.tir import nodes as n

PRIMITIVE = "Primitive"
"""The attribute of functions that become one kernel."""


@dataclass(frozen=True, slots=True)
class Outlined:
    """A function that shares no variable with its origin, and the arguments of its call."""

    func: r.Function
    args: tuple[RelaxExpr, ...]
    info: r.StructInfo

    def call(self, gvar: GlobalVar) -> r.Call:
        """The call of the function under its name in a module."""
        made = r.Call(gvar, self.args)
        r.set_struct_info(made, self.info)
        return made


def outlined(
    bindings: Sequence[r.Binding], results: Sequence[r.Var], attrs: Mapping[str, Any], lift_constants: bool = True
) -> Outlined:
    """The function that computes `bindings` and returns `results`, a tuple where there are several.

    Its parameters are what the bindings use and do not define, in the order of use. Constants with dimensions are
    parameters too, unless `lift_constants` says otherwise. Dimensions that no parameter tells come last, as a shape.
    """
    defined = {binding.var for binding in bindings}
    params: dict[RelaxExpr, r.Var] = {}
    for binding in bindings:
        for node in walk(binding.value):
            if node in params or node in defined:
                continue
            if isinstance(node, r.Var):
                params[node] = r.Var(node.name_hint, node.struct_info)
            elif lift_constants and isinstance(node, r.Constant) and node.data.ndim:
                params[node] = r.Var("param", node.struct_info)
    own = list(params.values())
    args: list[RelaxExpr] = list(params)
    told = {symbol for param in own for symbol in symbols_set_by(param.struct_info)}
    used = dict.fromkeys(symbol for binding in bindings for symbol in _symbols(binding))
    used.update(dict.fromkeys(symbol for param in own for symbol in symbols_in(param.struct_info)))
    untold = tuple(symbol for symbol in used if symbol not in told)
    if untold:
        own.append(r.Var("sizes", r.ShapeStructInfo(untold)))
        args.append(r.ShapeExpr(untold))
    renewal = _Outline(params, set(results))
    body = [renewal.binding(binding) for binding in bindings]
    last: list[r.Binding] = []
    outs = [renewal.variables.get(var, var) for var in results]
    result = outs[0]
    if len(outs) > 1:
        whole = r.Tuple(tuple(outs))
        result = r.Var("gv", whole.struct_info)
        last.append(r.VarBinding(result, whole))
    info: r.StructInfo = results[0].struct_info
    if len(results) > 1:
        info = r.TupleStructInfo(tuple([var.struct_info for var in results]))
    seq = r.SeqExpr((r.DataflowBlock((*body, *last)),), result)
    r.set_struct_info(seq, info)
    return Outlined(copy_with_new_vars(r.Function(own, seq, info, True, attrs)), tuple(args), info)


def read_outside(bindings: Sequence[r.Binding], members: Sequence[int]) -> list[r.Var]:
    """The variables of some bindings of a block that others read, or that are seen outside of the block."""
    inside = set(members)
    read = {
        node
        for number, binding in enumerate(bindings)
        if number not in inside
        for node in walk(binding.value)
        if isinstance(node, r.Var)
    }
    own = [bindings[number].var for number in sorted(inside)]
    return [var for var in own if var in read or not isinstance(var, r.DataflowVar)] or own[-1:]


class _Outline(Renewal):
    """Copies bindings over the parameters of a function; only its results are seen outside of its block."""

    def __init__(self, params: Mapping[RelaxExpr, r.Var], results: set[r.Var]) -> None:
        super().__init__({var: param for var, param in params.items() if isinstance(var, r.Var)})
        self._constants = {item: param for item, param in params.items() if isinstance(item, r.Constant)}
        self._results = results

    def expr(self, expr: RelaxExpr) -> Any:
        found = self._constants.get(expr) if isinstance(expr, r.Constant) else None
        return super().expr(expr) if found is None else found

    def define(self, var: r.Var) -> r.Var:
        made = (r.Var if var in self._results else r.DataflowVar)(var.name_hint, var.struct_info_)
        self.variables[var] = made
        return made


def _symbols(binding: r.Binding) -> list[n.Var]:
    found = [node for node in walk(binding.value) if isinstance(node, n.Var)]
    known = binding.var.struct_info_
    return found if known is None else [*found, *symbols_in(known)]
