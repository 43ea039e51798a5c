"""Copies of statements with variables of their own, so that each loop keeps a variable no other has."""

from __future__ import annotations

from compiler.ir.base import Node, Op
from compiler.ir.visit import map_children, replace
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt

_IF_THEN_ELSE = Op.get("tir.if_then_else")


def renamed(stmt: Stmt) -> Stmt:
    """A copy of `stmt` in which every variable and buffer it defines is new."""
    fresh: dict[n.Var, n.Var] = {}
    buffers: dict[n.Buffer, n.Buffer] = {}

    def define(var: n.Var) -> n.Var:
        new = fresh[var] = type(var)(var.name, var.dtype, var.span)
        return new

    def buffer_of(buffer: n.Buffer) -> n.Buffer:
        found = buffers.get(buffer)
        if found is None:
            data = fresh.get(buffer.data)
            if data is None:
                return buffer
            found = buffers[buffer] = replace(buffer, data=data)
        return found

    def go(node: Node) -> Node:
        match node:
            case n.Var():
                return fresh.get(node, node)
            case n.BinaryOp() | n.IntImm() | n.FloatImm():
                return map_children(node, go)
            case n.For():
                define(node.loop_var)
            case n.Let() | n.LetStmt():
                define(node.var)
            case n.Allocate():
                define(node.buffer_var)
            case n.DeclBuffer():
                buffers[node.buffer] = replace(node.buffer, data=fresh.get(node.buffer.data, node.buffer.data))
            case _:
                pass
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.For():
                return replace(rebuilt, loop_var=fresh[rebuilt.loop_var])
            case n.Let() | n.LetStmt():
                return replace(rebuilt, var=fresh[rebuilt.var])
            case n.Allocate():
                return replace(rebuilt, buffer_var=fresh[rebuilt.buffer_var])
            case n.BufferLoad() | n.BufferStore() | n.DeclBuffer():
                buffer = buffer_of(rebuilt.buffer)
                return rebuilt if buffer is rebuilt.buffer else replace(rebuilt, buffer=buffer)
        return rebuilt

    result = go(stmt)
    assert isinstance(result, Stmt)
    return result


def substituted(stmt: Stmt, values: dict[n.Var, PrimExpr]) -> Stmt:
    """`stmt` with variables replaced, constants folded, and every variable it defines new."""

    def go(node: Node) -> Node:
        if isinstance(node, n.Var):
            return values.get(node, node)
        rebuilt = map_children(node, go)
        if rebuilt is not node and isinstance(rebuilt, n.BinaryOp):
            return ops.binary(type(rebuilt), rebuilt.a, rebuilt.b)
        if isinstance(rebuilt, n.Call) and rebuilt.op is _IF_THEN_ELSE and isinstance(rebuilt.args[0], n.IntImm):
            return rebuilt.args[1 if rebuilt.args[0].value else 2]
        if isinstance(rebuilt, n.Select) and isinstance(rebuilt.condition, n.IntImm):
            return rebuilt.true_value if rebuilt.condition.value else rebuilt.false_value
        return rebuilt

    result = go(renamed(stmt))
    assert isinstance(result, Stmt)
    return result
