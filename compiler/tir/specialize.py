"""A function with some of its parameters known; and a function with definitions of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import map_children, replace

Vars = dict[n.Var, PrimExpr]
Buffers = dict[n.Buffer, n.Buffer]


def specialize(func: n.PrimFunc, param_map: Mapping[n.Var, Any]) -> n.PrimFunc:
    """`func` with parameters known: a scalar's value (which is then no parameter any more), or for a parameter
    with a symbolic buffer a buffer whose shape says what the symbols are. Raises IRError where that does not fit."""
    known: Vars = {}
    for param, given in param_map.items():
        if not any(param is own for own in func.params):
            raise IRError(f"specialize: {param.name} is no parameter of the function")
        buffer = func.buffer_map.get(param)
        if buffer is None:
            known[param] = _scalar(param, given)
        elif isinstance(given, n.Buffer):
            _match(buffer, given, known)
        else:
            raise IRError(f"specialize: parameter {param.name} is a buffer, {given!r} is none")
    renewed = _Renewed(known)
    buffer_map = {param: renewed.buffer(buffer) for param, buffer in func.buffer_map.items()}
    body = renewed.node(func.body)
    assert isinstance(body, n.Stmt)
    params = tuple(param for param in func.params if param not in known)
    return n.PrimFunc(params, body, func.ret_type, buffer_map, func.attrs, func.span)


def _scalar(param: n.Var, given: Any) -> PrimExpr:
    value = ops.const(given, param.dtype) if isinstance(given, bool | int | float) else ops.as_expr(given)
    if value.dtype != param.dtype:
        raise IRError(f"specialize: {param.name} is {param.dtype}, its value {value.dtype}")
    return value


def _match(buffer: n.Buffer, given: n.Buffer, known: Vars) -> None:
    """What the sizes of `given` say about the symbols of `buffer`."""
    if buffer.dtype != given.dtype or len(buffer.shape) != len(given.shape):
        raise IRError(f"specialize: {given!r} is no buffer like {buffer.name}: {buffer.shape}, {buffer.dtype}")
    for own, new in zip((*buffer.shape, *buffer.strides), (*given.shape, *given.strides)):
        if isinstance(own, n.Var) and own not in known:
            known[own] = ops.cast(own.dtype, new)
            continue
        before = known[own] if isinstance(own, n.Var) else own
        if ops.as_int(before) is not None and ops.as_int(before) != ops.as_int(new):
            raise IRError(f"specialize: a size of {buffer.name} is {before}, {given!r} has {new}")


class _Renewed:
    """Rebuilds a tree with variables replaced, in the layouts of buffers too."""

    def __init__(self, known: Vars) -> None:
        self._known = known
        self._buffers: Buffers = {}

    def node(self, node: Node) -> Node:
        if isinstance(node, n.Var):
            return self._known.get(node, node)
        rebuilt = map_children(node, self.node)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore():
                buffer = self.buffer(rebuilt.buffer)
                return rebuilt if buffer is rebuilt.buffer else replace(rebuilt, buffer=buffer)
            case n.AttrStmt(node=n.Buffer() as about):
                return n.AttrStmt(self.buffer(about), rebuilt.attr_key, rebuilt.value, rebuilt.body, rebuilt.span)
            case n.Block():
                return replace(
                    rebuilt,
                    reads=tuple(map(self._region, rebuilt.reads)),
                    writes=tuple(map(self._region, rebuilt.writes)),
                    alloc_buffers=tuple(map(self.buffer, rebuilt.alloc_buffers)),
                    match_buffers=tuple(
                        n.MatchBufferRegion(self.buffer(view.buffer), self._region(view.source))
                        for view in rebuilt.match_buffers
                    ),
                )
        return rebuilt

    def buffer(self, buffer: n.Buffer) -> n.Buffer:
        found = self._buffers.get(buffer)
        if found is None:
            parts = {
                "shape": tuple(map(self._expr, buffer.shape)),
                "strides": tuple(map(self._expr, buffer.strides)),
                "elem_offset": None if buffer.elem_offset is None else self._expr(buffer.elem_offset),
            }
            same = buffer.elem_offset is parts["elem_offset"] and all(
                a is b for a, b in zip((*buffer.shape, *buffer.strides), (*parts["shape"], *parts["strides"]))  # type: ignore[misc]
            )
            found = self._buffers[buffer] = buffer if same else replace(buffer, **parts)
        return found

    def _expr(self, expr: PrimExpr) -> PrimExpr:
        found = self.node(expr)
        assert isinstance(found, PrimExpr)
        return found

    def _region(self, region: n.BufferRegion) -> n.BufferRegion:
        dims = tuple(n.Range(self._expr(r.min), self._expr(r.extent), r.span) for r in region.region)
        return n.BufferRegion(self.buffer(region.buffer), dims)

