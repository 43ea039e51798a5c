"""Walking Relay expressions without recursion: networks are thousands of calls deep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from compiler.faces.relay.nodes import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from compiler.ir.base import Op


def children(expr: Any) -> tuple[Any, ...]:
    """All expressions that one is made of, those under functions and branches among them."""
    match expr:
        case Call():
            return (*expr.args,) if isinstance(expr.op, Op) else (expr.op, *expr.args)
        case Tuple():
            return expr.fields
        case TupleGetItem():
            return (expr.tuple_value,)
        case If():
            return expr.cond, expr.true_branch, expr.false_branch
        case Let():
            return expr.var, expr.value, expr.body
        case Function():
            return *expr.params, expr.body
    return ()


def post_order(roots: list[Any], inner: Callable[[Any], tuple[Any, ...]] = children) -> Iterator[Any]:
    """Every expression under `roots` once, after those that it is made of."""
    done: set[int] = set()
    stack: list[tuple[Any, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expr, entered = stack.pop()
        if id(expr) in done:
            continue
        if entered:
            done.add(id(expr))
            yield expr
            continue
        stack.append((expr, True))
        stack.extend((item, False) for item in reversed(inner(expr)) if id(item) not in done)


def post_order_visit(expr: Expr, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` with each expression under `expr` once, parts before wholes."""
    for item in post_order([expr]):
        fvisit(item)


def all_vars(expr: Expr) -> list[Var]:
    """The variables under `expr`, in post-order."""
    return [item for item in post_order([expr]) if isinstance(item, Var)]


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that functions and lets under `expr` bind, in post-order."""
    found: dict[Var, None] = {}
    for item in post_order([expr]):
        if isinstance(item, Function):
            found.update(dict.fromkeys(item.params))
        elif isinstance(item, Let):
            found[item.var] = None
    return list(found)


def free_vars(expr: Expr) -> list[Var]:
    """The variables under `expr` that nothing in it binds, in post-order."""
    bound = set(bound_vars(expr))
    return [item for item in all_vars(expr) if item not in bound]
