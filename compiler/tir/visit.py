"""Walks over TensorIR beside those of `compiler.ir.visit`: statements only, variables, sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from compiler.ir.base import Node
from compiler.ir.visit import child_list, map_children, walk
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, Stmt

NodeT = TypeVar("NodeT", bound=Node)

_WITH_BODY = frozenset({n.For, n.While, n.LetStmt, n.AttrStmt, n.AssertStmt, n.Allocate, n.DeclBuffer})
_NO_STMTS = frozenset({n.BufferStore, n.Evaluate})


def walk_stmts(node: Node) -> Iterator[Stmt]:
    """Yield every statement under `node`, itself first, without the expressions that `walk` also yields."""
    stack: list[Node] = [node]
    pop, push = stack.pop, stack.append
    while stack:
        current = pop()
        cls = type(current)
        if cls is n.SeqStmt:
            stack += current.seq[::-1]  # type: ignore[attr-defined]
        elif cls in _WITH_BODY:
            push(current.body)  # type: ignore[attr-defined]
        elif cls not in _NO_STMTS:
            if isinstance(current, PrimExpr):
                continue
            stack += [child for child in child_list(current) if isinstance(child, Stmt)][::-1]
        yield current  # type: ignore[misc]


def substitute(node: NodeT, mapping: Mapping[n.Var, PrimExpr]) -> NodeT:
    """`node` with variables replaced. Definitions (loop and iteration variables) are left alone."""
    if not mapping:
        return node

    def go(current: Node) -> Node:
        if isinstance(current, n.Var):
            return mapping.get(current, current)
        return map_children(current, go)

    return go(node)  # type: ignore[return-value]


def free_vars(node: Node) -> set[n.Var]:
    """Variables used under `node` and defined nowhere under it."""
    used: set[n.Var] = set()
    defined: set[n.Var] = set()
    for current in walk(node):
        match current:
            case n.Var():
                used.add(current)
            case n.For():
                defined.add(current.loop_var)
            case n.Let() | n.LetStmt():
                defined.add(current.var)
            case n.Block():
                defined.update(iv.var for iv in current.iter_vars)
                for match in current.match_buffers:  # where it lies follows from the region
                    layout = (match.buffer.data, match.buffer.elem_offset, *match.buffer.strides)
                    defined.update(part for part in layout if isinstance(part, n.Var))
            case n.Reduce():
                defined.update(iv.var for iv in current.axis)
            case n.Allocate():
                defined.add(current.buffer_var)
            case _:
                pass
    return used - defined


def seq(*stmts: Stmt | None) -> Stmt:
    """The statements one after another, nested sequences flattened and Nones dropped."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, n.SeqStmt):
            flat.extend(stmt.seq)
        elif stmt is not None:
            flat.append(stmt)
    if not flat:
        return n.Evaluate(n.IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else n.SeqStmt(tuple(flat))
