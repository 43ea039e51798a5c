"""Blocks: `with T.block("name"):`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from compiler.script.expressions import arguments
from compiler.script.parser import BlockParts, Parser
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.access import accesses
from compiler.tir.nodes import Stmt


def block(p: Parser, call: ast.Call, inside: Callable[[], Stmt]) -> Stmt:
    """The block that a `with` opens; `inside` reads its statements."""
    args, named = arguments(p, call)
    realized = not named.pop("no_realize", False)
    if named or len(args) > 1 or not all(isinstance(a, str) for a in args):
        p.fail(call, 'a block has a name: T.block("C")')
    p.parts.append(BlockParts(realized=realized))
    body = inside()
    parts = p.parts.pop()
    reads, writes = parts.reads, parts.writes
    made = n.Block(
        tuple(parts.iter_vars), reads or (), writes or (), args[0] if args else "", body, parts.init,
        tuple(parts.allocated), tuple(parts.matched), parts.annotations, p.span(call),
    )  # fmt: skip
    if reads is None or writes is None:
        found = accesses(made)
        made = n.Block(
            made.iter_vars, found[0] if reads is None else reads, found[1] if writes is None else writes,
            made.name_hint, body, made.init, made.alloc_buffers, made.match_buffers, made.annotations, made.span,
        )  # fmt: skip
    if not realized:
        return made
    return n.BlockRealize(
        tuple(parts.values), ops.const(True) if parts.predicate is None else parts.predicate, made, p.span(call)
    )
