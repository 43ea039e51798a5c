"""The axes of a block: T.axis.spatial, T.axis.reduce and the others."""

from __future__ import annotations

import ast
from typing import Any

from compiler.script.buffers import interval
from compiler.script.expressions import arguments
from compiler.script.parser import Parser
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType

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


def axis(p: Parser, call: ast.Call, kind: str, name: str) -> n.Var:
    """`name = T.axis.<kind>(domain, value)`: a new axis of the block at hand; gives its variable."""
    args, named = arguments(p, call)
    named.pop("dtype", None)
    want = 2 if p.block.realized else 1
    if named or len(args) != want or p.block.is_function:
        p.fail(call, f"T.axis.{kind} takes a domain and a value, in a block")
    dom = _domain(p, args[0], args[1] if want == 2 else None)
    given = ops.as_expr(args[1]) if want == 2 else None
    dtype = dom.extent.dtype if dom is not None else given.dtype if given is not None else "int32"
    var = n.Var(name, dtype, p.span(call))
    p.block.iter_vars.append(n.IterVar(dom, var, AXES[kind], "", p.span(call)))
    if given is not None:
        p.block.values.append(ops.cast(dtype, given) if isinstance(args[1], int) else given)
    return var


def _domain(p: Parser, dom: Any, given: Any) -> n.Range | None:
    if dom is None:
        return None
    low, high = dom if isinstance(dom, tuple | list) else (0, dom)
    dtype = getattr(given, "dtype", "int32")
    if isinstance(low, int) and isinstance(high, int):
        low, high = ops.const(low, dtype), ops.const(high, dtype)
    return interval(p, low, high)
