"""Passes over TensorIR functions that lowering here does without, under Apache TVM's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.ir.base import Node
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.ir.transform.passes import Pass, module_pass
from compiler.ir.visit import transform, walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import Stmt
from compiler.tir.transform import prim_func_pass


def AnnotateEntryFunc() -> Pass:
    """Make the pass that marks a module's only function with a name, or its "main", as its entry."""

    def run(mod: IRModule, context: Any) -> IRModule:
        funcs = {var: func for var, func in mod.functions.items() if isinstance(func, n.PrimFunc)}
        named = [var for var, func in funcs.items() if "global_symbol" in func.attrs]
        entries = named if len(named) == 1 else [var for var in named if var.name_hint == "main"]
        marked = {var: funcs[var].with_attr("tir.is_entry_func", True) for var in entries}
        return IRModule({**mod.functions, **marked}, attrs=mod.attrs)

    made: Pass = module_pass(run, opt_level=0, name="tir.AnnotateEntryFunc")
    return made


def RemoveNoOp() -> Pass:
    """Make the pass that removes statements without effect.
    They store what is there already, loop no times, or hold only such statements."""
    return _everywhere("tir.RemoveNoOp", _simpler)


def RewriteUnsafeSelect() -> Pass:
    """Make the pass that evaluates only one side of a `Select` where a side reads memory."""
    return _everywhere("tir.RewriteUnsafeSelect", _one_side)


_NOTHING = n.Evaluate(ops.const(0))


def _everywhere(name: str, rule: Callable[[Node], Node]) -> Pass:
    """Make a pass that rewrites every node, from the leaves up."""

    def run(func: n.PrimFunc, mod: IRModule, context: Any) -> n.PrimFunc:
        body = transform(func.body, post=rule)
        assert isinstance(body, Stmt)
        return func.with_body(body)

    made: Pass = prim_func_pass(run, opt_level=0, name=name)
    return made


def _simpler(node: Node) -> Node:
    match node:
        case n.Evaluate(value=value) if not _has_effects(value):
            return _NOTHING
        case n.For(extent=n.IntImm(value=count)) if count < 1:
            return _NOTHING
        case n.BufferStore(value=n.BufferLoad() as value) if node.predicate is None and _is_same_place(node, value):
            return _NOTHING
        case n.For(body=body) | n.While(body=body) | n.LetStmt(body=body) | n.Allocate(body=body) if _is_nothing(body):
            return _NOTHING
        case n.IfThenElse():
            otherwise = node.else_case if node.else_case is None or not _is_nothing(node.else_case) else None
            if not _is_nothing(node.then_case):
                return n.IfThenElse(node.condition, node.then_case, otherwise, node.span)
            return _NOTHING if otherwise is None else n.IfThenElse(n.Not(node.condition), otherwise, None, node.span)
        case n.SeqStmt():
            kept = [stmt for stmt in node.seq if not _is_nothing(stmt)]
            return _NOTHING if not kept else kept[0] if len(kept) == 1 else n.SeqStmt(tuple(kept))
    return node


def _is_same_place(store: n.BufferStore, load: n.BufferLoad) -> bool:
    same = store.buffer is load.buffer and load.predicate is None
    return same and structural_equal(store.indices, load.indices) and not any(map(_has_effects, load.indices))


def _is_nothing(stmt: Node) -> bool:
    return isinstance(stmt, n.Evaluate) and not _has_effects(stmt.value)


def _has_effects(expr: Node) -> bool:
    return any(isinstance(node, n.Call) and not getattr(node.op, "pure", False) for node in walk(expr))


def _one_side(node: Node) -> Node:
    if isinstance(node, n.Select) and node.dtype and "x" not in node.dtype:
        sides = (node.true_value, node.false_value)
        if any(isinstance(part, n.BufferLoad) for side in sides for part in walk(side)):
            return intrin.if_then_else(node.condition, *sides)
    return node
