"""Visiting every expression of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.ir.base import Node, RelaxExpr
from compiler.ir.visit import child_list


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
