"""Visiting and rewriting statements and expressions, under TVM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.ir import visit
from compiler.ir.base import Node
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir import visit as tir_visit
from compiler.tir.nodes import PrimExpr, PrimFunc
from compiler.tir.renew import renew_defs

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]


def post_order_visit(stmt: Node, fvisit: Callable[[Node], Any]) -> None:
    """Call `fvisit` on every statement and expression under `stmt`, children first, each object once."""
    seen: set[int] = set()

    def go(current: Node) -> None:
        if id(current) in seen:
            return
        seen.add(id(current))
        for child in visit.children(current):
            go(child)
        fvisit(current)

    go(_body(stmt))


def pre_order_visit(stmt: Node, fvisit: Callable[[Node], Any]) -> None:
    """Call `fvisit` on every statement and expression under `stmt`, parents first.
    Where it returns False, what is under that node is left out."""
    seen: set[int] = set()

    def go(current: Node) -> None:
        if id(current) in seen:
            return
        seen.add(id(current))
        if fvisit(current) is not False:
            for child in visit.children(current):
                go(child)

    go(_body(stmt))


def ir_transform(
    stmt: Node,
    preorder: Callable[[Node], Node | None] | None,
    postorder: Callable[[Node], Node | None] | None,
    only_enable: Sequence[str] | None = None,
) -> Node:
    """Rewrite `stmt` by `preorder(node)` and `postorder(node)`; None keeps a node.
    What `preorder` gives is not descended into; `postorder` sees each rebuilt node. `only_enable`: the node types
    that both are called for, such as "tir.For"."""
    enabled = None if only_enable is None else {_node_type(name) for name in only_enable}

    def limited(f: Callable[[Node], Node | None] | None) -> Callable[[Node], Node | None] | None:
        if f is None or enabled is None:
            return f
        return lambda node: f(node) if type(node) in enabled else None

    return visit.transform(stmt, limited(preorder), limited(postorder))


def substitute(node: Node, vmap: Mapping[n.Var, Any]) -> Node:
    """`node` with variables replaced by expressions or numbers."""
    return tir_visit.substitute(node, {var: _converted(var, value) for var, value in vmap.items()})


def _converted(var: n.Var, value: Any) -> PrimExpr:
    return ops.const(value, var.dtype) if isinstance(value, bool | int | float) else ops.as_expr(value)


def _body(node: Node) -> Node:
    return node.body if isinstance(node, PrimFunc) else node


def _node_type(name: str) -> type:
    found = getattr(n, name.removeprefix("tir."), None)
    if not isinstance(found, type):
        raise IRError(f"there is no node type {name!r}", hint='names are as "tir.For"')
    return found
