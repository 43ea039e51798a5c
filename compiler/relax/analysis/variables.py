"""Which variables a graph mentions, and which it defines."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.base import GlobalVar, Node, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax.nodes import Binding, Call, Function, MatchCast, StructInfo, TensorStructInfo, Var
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.tir import nodes as n


def all_vars(expr: RelaxExpr) -> list[Var]:
    """Every variable that `expr` uses or defines, each once, in order."""
    return list(dict.fromkeys(_vars(expr)))


def bound_vars(expr: RelaxExpr) -> list[Var]:
    """The variables that `expr` defines: of bindings, and parameters of functions."""
    return list(dict.fromkeys(_definitions(expr)))


def free_vars(expr: RelaxExpr) -> list[Var]:
    """The variables that `expr` uses and does not define, each once, in order."""
    defined = set(_definitions(expr))
    return [var for var in dict.fromkeys(_uses(expr)) if var not in defined]


def all_global_vars(expr: RelaxExpr) -> list[GlobalVar]:
    """The names of functions that `expr` mentions, each once, in order."""
    return list(dict.fromkeys(node for node in walk(expr) if isinstance(node, GlobalVar)))


def called_global_vars(expr: RelaxExpr) -> list[GlobalVar]:
    """The names of functions that `expr` calls itself, each once, in order."""
    return list(
        dict.fromkeys(node.op for node in walk(expr) if isinstance(node, Call) and isinstance(node.op, GlobalVar))
    )


def defined_symbolic_vars(func: Function) -> list[n.Var]:
    """The dimensions that `func` gives a value to: in its parameters and by match_cast."""
    infos = [param.struct_info for param in func.params]
    infos += [node.struct_info for node in walk(func) if isinstance(node, MatchCast)]
    return list(dict.fromkeys(var for info in infos for var in symbols_set_by(info)))


def free_symbolic_vars(func: Function) -> list[n.Var]:
    """The dimensions that `func` mentions and gives no value to."""
    defined = set(defined_symbolic_vars(func))
    return [var for var in symbols_mentioned(func) if var not in defined]


def symbols_mentioned(func: Function) -> list[n.Var]:
    """The dimensions that a function mentions anywhere, each once, in order."""
    found: dict[n.Var, None] = {}
    for param in func.params:
        found.update(dict.fromkeys(symbols_in(param.struct_info)))
    for node in walk(func):
        if isinstance(node, n.Var):
            found[node] = None
        elif isinstance(node, Binding) and node.var.struct_info_ is not None:
            found.update(dict.fromkeys(symbols_in(node.var.struct_info_)))
    found.update(dict.fromkeys(symbols_in(func.ret_struct_info)))
    return list(found)


def _definitions(expr: Node) -> Iterator[Var]:
    for node in walk(expr):
        if isinstance(node, Binding):
            yield node.var
        elif isinstance(node, Function):
            yield from node.params


def _uses(expr: Node) -> Iterator[Var]:
    for node in walk(expr):
        if isinstance(node, Var):
            yield node
        elif isinstance(node, Function):
            for param in node.params:
                yield from _in_info(param.struct_info_)


def _in_info(info: StructInfo | None) -> Iterator[Var]:
    """Variables that stand as shapes."""
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, Var):
        yield info.shape


def _vars(expr: Node) -> Iterator[Var]:
    for node in walk(expr):
        if isinstance(node, Var):
            yield node
        elif isinstance(node, Function):
            yield from node.params
        elif isinstance(node, Binding):
            yield node.var
