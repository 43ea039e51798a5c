"""Blocks and their axes: `with T.block("name"):`, T.axis.spatial, T.axis.reduce and the others."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from compiler.tir import hooks, ops
from compiler.tir import nodes as n
from compiler.tir.nodes import IterType, Stmt
from compiler.tir.text.parse_buffers import interval
from compiler.tir.text.parse_expr import BlockParts, TirParser

AXES = {
    "spatial": IterType.DATA_PAR,
    "S": IterType.DATA_PAR,
    "reduce": IterType.COMM_REDUCE,
    "R": IterType.COMM_REDUCE,
    "scan": IterType.ORDERED,
    "O": IterType.ORDERED,
    "opaque": IterType.OPAQUE,
    "Q": IterType.OPAQUE,
}


def axis(p: TirParser, call: ast.Call, kind: str, name: str) -> n.Var:
    """`name = T.axis.<kind>(domain, value)`: a new axis of the block at hand; gives its variable."""
    args, named = p.arguments(call)
    named.pop("dtype", None)
    want = 2 if p.block.realized else 1
    if named or len(args) != want or p.block.is_function:
        p.fail(call, f"T.axis.{kind} takes a domain and a value, in a block")
    dom = _domain(p, args[0], args[1] if want == 2 else None)
    given = ops.as_expr(args[1]) if want == 2 else None
    dtype = dom.extent.dtype if dom is not None else given.dtype if given is not None else "int32"
    var = n.Var(name, dtype, p.span(call))
    add_axis(p, call, n.IterVar(dom, var, AXES[kind], "", p.span(call)))
    if given is not None:
        p.block.values.append(ops.cast(dtype, given) if isinstance(args[1], int) else given)
    return var


def add_axis(p: TirParser, node: ast.AST, new: n.IterVar) -> None:
    """Add an axis to the block at hand. Raises ScriptError where the block has one of its name."""
    if any(axis.var.name == new.var.name for axis in p.block.iter_vars):
        p.fail(node, f"the block has two axes {new.var.name!r}", "give each axis a name of its own")
    p.block.iter_vars.append(new)


def _domain(p: TirParser, dom: Any, given: Any) -> n.Range | None:
    if dom is None:
        return None
    low, high = dom if isinstance(dom, tuple | list) else (0, dom)
    dtype = getattr(given, "dtype", "int32")
    if isinstance(low, int) and isinstance(high, int):
        low, high = ops.const(low, dtype), ops.const(high, dtype)
    return interval(p, low, high)


def block(p: TirParser, call: ast.Call, inside: Callable[[], Stmt]) -> Stmt:
    """The block that a `with` opens; `inside` reads its statements."""
    args, named = p.arguments(call)
    realized = not named.pop("no_realize", False)
    if named or len(args) > 1 or not all(isinstance(a, str) for a in args):
        p.fail(call, 'a block has a name: T.block("C")')
    p.parts.append(BlockParts(realized=realized))
    body = inside()
    parts = p.parts.pop()
    reads, writes = parts.reads, parts.writes
    if args == ["root"] and not parts.iter_vars and all(outer.is_function for outer in p.parts):
        reads, writes = reads or (), writes or ()  # the block around a whole function accesses nothing itself
    made = n.Block(
        tuple(parts.iter_vars), reads or (), writes or (), args[0] if args else "", body, parts.init,
        tuple(parts.allocated), tuple(parts.matched), parts.annotations, p.span(call),
    )  # fmt: skip
    if reads is None or writes is None:
        found = hooks.arithmetic().accesses(made)
        made = n.Block(
            made.iter_vars, found[0] if reads is None else reads, found[1] if writes is None else writes,
            made.name_hint, body, made.init, made.alloc_buffers, made.match_buffers, made.annotations, made.span,
        )  # fmt: skip
    if not realized:
        return made
    return n.BlockRealize(
        tuple(parts.values), ops.const(True) if parts.predicate is None else parts.predicate, made, p.span(call)
    )
