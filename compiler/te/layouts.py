"""Statements written over buffers of their own, put over the buffers of a computation."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.ir.base import Node, Op
from compiler.ir.visit import children, replace, walk
from compiler.schedule.analysis.dataflow import swap_buffers
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import substitute

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")
_READ = 1  # the mask of an address that is only read through


def over_buffers(stmt: Stmt, swap: Mapping[n.Buffer, n.Buffer]) -> Stmt:
    """Replace buffers in `stmt`.
    They stand in accesses, and in the strides and offsets from which addresses are computed."""
    values: dict[n.Var, PrimExpr] = {}
    for old, new in swap.items():
        values[old.data] = new.data
        for stride, step in zip(old.strides, new.steps()):
            if isinstance(stride, n.Var):
                values[stride] = step
        if isinstance(old.elem_offset, n.Var):
            offset = ops.const(0, old.elem_offset.dtype) if new.elem_offset is None else new.elem_offset
            values[old.elem_offset] = offset
    result = substitute(swap_buffers(stmt, dict(swap)), values)
    assert isinstance(result, Stmt)
    return result


def fresh_view(buffer: n.Buffer, scope: str) -> n.Buffer:
    """A buffer like `buffer`, with variables of its own, for memory of `scope`."""

    def fresh(expr: PrimExpr) -> PrimExpr:
        return type(expr)(expr.name, expr.dtype) if isinstance(expr, n.Var) else expr

    offset = None if buffer.elem_offset is None else fresh(buffer.elem_offset)
    strides = tuple(map(fresh, buffer.strides))
    data = n.Var(buffer.data.name, buffer.data.dtype)
    return replace(buffer, data=data, strides=strides, elem_offset=offset, scope=scope)


def addressed(stmt: Stmt) -> set[n.Var]:
    """Return the data variables of the buffers whose address `stmt` takes."""
    return {node for node in walk(stmt) if isinstance(node, n.Var) and node.dtype == "handle"}


def written_by_address(stmt: Stmt) -> set[n.Var]:
    """Return the data variables of buffers that `stmt` lets a function write through their address."""
    written: set[n.Var] = set()

    def visit(node: Node) -> None:
        if isinstance(node, n.Call) and node.op is _ACCESS_PTR and ops.as_int(node.args[4]) == _READ:
            return
        if isinstance(node, n.Var) and node.dtype == "handle":
            written.add(node)
        for child in children(node):
            visit(child)

    visit(stmt)
    return written
