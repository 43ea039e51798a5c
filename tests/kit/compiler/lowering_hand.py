"""Functions written by hand for lowering tests, and agreement of a pass with the interpreter and machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import BufferStore, For, ForKind, IfThenElse, PrimFunc
from tests.kit.compiler.lowering import assert_same, outputs_by_interpreter, outputs_by_machine

Pass = Callable[[PrimFunc], PrimFunc]


def buffer(name: str, *shape: Any, dtype: str = "float32", scope: str = "global", **more: Any) -> n.Buffer:
    return n.decl_buffer(shape, dtype, name, scope=scope, **more)


def function(buffers: list[n.Buffer], body: n.Stmt) -> PrimFunc:
    handles = tuple(n.Var(f"p{i}", "handle") for i in range(len(buffers)))
    return PrimFunc(handles, body, None, dict(zip(handles, buffers)), {"tir.noalias": True})


def loop(var: n.Var, extent: Any, body: n.Stmt, kind: ForKind = ForKind.SERIAL, low: Any = 0, **more: Any) -> For:
    return For(var, ops.as_expr(low), ops.as_expr(extent), kind, body, **more)


def loops(func: PrimFunc) -> list[For]:
    return [node for node in walk(func.body) if isinstance(node, For)]


def conditions(func: PrimFunc) -> list[IfThenElse]:
    return [node for node in walk(func.body) if isinstance(node, IfThenElse)]


def same(func: PrimFunc, change: Pass) -> PrimFunc:
    """The function after a pass, which computes what it did."""
    rng = np.random.default_rng(1)
    args = []
    for param in func.params:
        held = func.buffer_map[param]
        values = rng.integers(-9, 9, [ops.as_int(d) for d in held.shape])
        args.append(values.astype(held.dtype))
    changed = change(func)
    assert_same(outputs_by_interpreter(changed, args), outputs_by_interpreter(func, args), "after the pass")
    assert_same(outputs_by_machine(func, args), outputs_by_interpreter(func, args), "machine code")
    return changed


def stores(func: PrimFunc) -> list[BufferStore]:
    return [node for node in walk(func.body) if isinstance(node, BufferStore)]


def kinds(func: PrimFunc) -> list[ForKind]:
    return [f.kind for f in loops(func)]
