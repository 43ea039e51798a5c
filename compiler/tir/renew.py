"""Copies of functions that share no definition with the original."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, PrimFunc


def renew_defs(func: PrimFunc) -> PrimFunc:
    """Copy `func` with all its parameters, variables, buffers and block variables made anew.
    Both can then stand in one function, or be changed independently."""
    return _Renewer().function(func)


class _Renewer:
    def __init__(self) -> None:
        self._vars: dict[n.Var, n.Var] = {}
        self._buffers: dict[n.Buffer, n.Buffer] = {}

    def function(self, func: PrimFunc) -> PrimFunc:
        params = tuple(map(self._new, func.params))
        for buffer in func.buffer_map.values():  # all of them first: a shape may be made of another buffer's sizes
            self._name(buffer)
        buffers = {self._vars[param]: self._buffer(buffer) for param, buffer in func.buffer_map.items()}
        body = self.go(func.body)
        return replace(func, params=params, buffer_map=buffers, body=body)

    def _new(self, var: n.Var) -> n.Var:
        found = self._vars[var] = type(var)(var.name, var.dtype, var.span)
        return found

    def _define(self, buffer: n.Buffer) -> n.Buffer:
        """A new buffer; the data and sizes it is the first to name are new with it."""
        self._name(buffer)
        return self._buffer(buffer)

    def _name(self, buffer: n.Buffer) -> None:
        """New variables for the data and sizes that `buffer` is the first to name."""
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for expr in (buffer.data, *buffer.shape, *buffer.strides, *offset):
            if isinstance(expr, n.Var) and expr not in self._vars:
                self._new(expr)

    def _buffer(self, buffer: n.Buffer) -> n.Buffer:
        found = self._buffers.get(buffer)
        if found is None:
            found = self._buffers[buffer] = replace(
                buffer,
                data=self._vars.get(buffer.data, buffer.data),
                shape=tuple(map(self._expr, buffer.shape)),
                strides=tuple(map(self._expr, buffer.strides)),
                elem_offset=None if buffer.elem_offset is None else self._expr(buffer.elem_offset),
            )
        return found

    def _expr(self, expr: PrimExpr) -> PrimExpr:
        result = self.go(expr)
        assert isinstance(result, PrimExpr)
        return result

    def go(self, node: Node) -> Node:
        if isinstance(node, n.Var):
            return self._vars.get(node, node)
        changes = self._defined(node)
        rebuilt = map_children(node, self.go)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore():
                changes["buffer"] = self._buffer(rebuilt.buffer)
            case n.Block():
                changes |= self._block(rebuilt)
            case n.AttrStmt(node=n.IterVar(var=var)):
                changes["node"] = replace(rebuilt.node, var=self._vars.get(var, var))
            case n.AttrStmt(node=n.Buffer()):
                changes["node"] = self._buffer(rebuilt.node)
            case _:
                pass
        return replace(rebuilt, **changes) if changes else rebuilt

    def _defined(self, node: Node) -> dict[str, Any]:
        """New names for what `node` defines, as changes of its fields."""
        match node:
            case n.For():
                binding = node.thread_binding
                changes: dict[str, Any] = {"loop_var": self._new(node.loop_var)}
                if binding is not None:
                    changes["thread_binding"] = replace(binding, var=self._new(binding.var))
                return changes
            case n.Let() | n.LetStmt():
                return {"var": self._new(node.var)}
            case n.Allocate():
                return {"buffer_var": self._new(node.buffer_var)}
            case n.DeclBuffer():
                return {"buffer": self._define(node.buffer)}
            case n.AttrStmt(node=n.IterVar(var=var), attr_key="thread_extent") if var not in self._vars:
                self._new(var)
            case n.Block():
                for axis in node.iter_vars:
                    self._new(axis.var)
                for buffer in (*node.alloc_buffers, *(match.buffer for match in node.match_buffers)):
                    self._define(buffer)
            case _:
                pass
        return {}

    def _block(self, block: n.Block) -> dict[str, Any]:
        return {
            "iter_vars": tuple(replace(axis, var=self._vars[axis.var]) for axis in block.iter_vars),
            "reads": tuple(map(self._region, block.reads)),
            "writes": tuple(map(self._region, block.writes)),
            "alloc_buffers": tuple(map(self._buffer, block.alloc_buffers)),
            "match_buffers": tuple(
                n.MatchBufferRegion(self._buffer(match.buffer), self._region(match.source))
                for match in block.match_buffers
            ),
        }

    def _region(self, region: n.BufferRegion) -> n.BufferRegion:
        return n.BufferRegion(self._buffer(region.buffer), region.region)
