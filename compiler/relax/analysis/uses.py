"""Every expression of a graph, and which values are used where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.ir.base import Node, RelaxExpr
from compiler.ir.visit import child_list, walk
from compiler.relax.nodes import Binding, DataflowBlock, Function, Var


def udchain(dfb: DataflowBlock) -> dict[Var, list[Var]]:
    """For each variable that is used or defined in a dataflow block, the variables whose values use it."""
    found: dict[Var, dict[Var, None]] = {}
    for binding in dfb.bindings:
        for node in walk(binding.value):
            if isinstance(node, Var):
                found.setdefault(node, {})[binding.var] = None
        found.setdefault(binding.var, {})
    return {var: list(users) for var, users in found.items()}


def get_var2val(func: Function) -> dict[Var, RelaxExpr]:
    """The value of each variable that the function binds."""
    return {node.var: node.value for node in walk(func) if isinstance(node, Binding)}


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """The bindings of each name, in order; several variables may have one name."""
    found: dict[str, list[Binding]] = {}
    for node in walk(func):
        if isinstance(node, Binding):
            found.setdefault(node.var.name_hint, []).append(node)
    return found


def post_order_visit(expr: RelaxExpr, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every expression in `expr`, what it is made of first, each object once."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            if isinstance(node, RelaxExpr):
                fvisit(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        stack += [(child, False) for child in reversed(child_list(node))]
