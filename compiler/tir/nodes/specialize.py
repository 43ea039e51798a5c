"""Trees with some of their variables known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.tir.nodes.axis import Range, Var
from compiler.tir.nodes.base import PrimExpr
from compiler.tir.nodes.buffer import Buffer, BufferRegion, BufferStore, MatchBufferRegion
from compiler.tir.nodes.convert import as_expr, as_int, cast, const
from compiler.tir.nodes.expr import BufferLoad
from compiler.tir.nodes.stmt import AttrStmt, Block

Vars = dict[Var, PrimExpr]
Buffers = dict[Buffer, Buffer]


def known_vars(params: Sequence[Var], buffer_map: Mapping[Var, Buffer], param_map: Mapping[Var, Any]) -> Vars:
    """Return the variables that given parameters determine.
    A scalar has its value, the symbols of a buffer come from the shape of the given buffer. Raises IRError where
    that does not fit."""
    known: Vars = {}
    for param, given in param_map.items():
        if not any(param is own for own in params):
            raise IRError(f"specialize: {param.name} is no parameter of the function")
        buffer = buffer_map.get(param)
        if buffer is None:
            known[param] = _scalar(param, given)
        elif isinstance(given, Buffer):
            _match(buffer, given, known)
        else:
            raise IRError(f"specialize: parameter {param.name} is a buffer, {given!r} is none")
    return known


def _scalar(param: Var, given: Any) -> PrimExpr:
    value = const(given, param.dtype) if isinstance(given, bool | int | float) else as_expr(given)
    if value.dtype != param.dtype:
        raise IRError(f"specialize: {param.name} is {param.dtype}, its value {value.dtype}")
    return value


def _match(buffer: Buffer, given: Buffer, known: Vars) -> None:
    """Note the values that the sizes of `given` give the symbols of `buffer`."""
    if buffer.dtype != given.dtype or len(buffer.shape) != len(given.shape):
        raise IRError(f"specialize: {given!r} is no buffer like {buffer.name}: {buffer.shape}, {buffer.dtype}")
    for own, new in zip((*buffer.shape, *buffer.strides), (*given.shape, *given.strides)):
        if isinstance(own, Var) and own not in known:
            known[own] = cast(own.dtype, new)
            continue
        before = known[own] if isinstance(own, Var) else own
        if as_int(before) is not None and as_int(before) != as_int(new):
            raise IRError(f"specialize: a size of {buffer.name} is {before}, {given!r} has {new}")


class RenewedDefinitions:
    """Rebuilds a tree with variables replaced, in the layouts of buffers too."""

    def __init__(self, known: Vars) -> None:
        self._known = known
        self._buffers: Buffers = {}

    def node(self, node: Node) -> Node:
        if isinstance(node, Var):
            return self._known.get(node, node)
        rebuilt = map_children(node, self.node)
        match rebuilt:
            case BufferLoad() | BufferStore():
                buffer = self.buffer(rebuilt.buffer)
                return rebuilt if buffer is rebuilt.buffer else replace(rebuilt, buffer=buffer)
            case AttrStmt(node=Buffer() as about):
                return AttrStmt(self.buffer(about), rebuilt.attr_key, rebuilt.value, rebuilt.body, rebuilt.span)
            case Block():
                return replace(
                    rebuilt,
                    reads=tuple(map(self._region, rebuilt.reads)),
                    writes=tuple(map(self._region, rebuilt.writes)),
                    alloc_buffers=tuple(map(self.buffer, rebuilt.alloc_buffers)),
                    match_buffers=tuple(
                        MatchBufferRegion(self.buffer(view.buffer), self._region(view.source))
                        for view in rebuilt.match_buffers
                    ),
                )
        return rebuilt

    def buffer(self, buffer: Buffer) -> Buffer:
        found = self._buffers.get(buffer)
        if found is None:
            parts = {
                "shape": tuple(map(self._expr, buffer.shape)),
                "strides": tuple(map(self._expr, buffer.strides)),
                "elem_offset": None if buffer.elem_offset is None else self._expr(buffer.elem_offset),
            }
            same = buffer.elem_offset is parts["elem_offset"] and all(
                a is b
                for a, b in zip((*buffer.shape, *buffer.strides), (*parts["shape"], *parts["strides"]))  # type: ignore[misc]
            )
            found = self._buffers[buffer] = buffer if same else replace(buffer, **parts)
        return found

    def _expr(self, expr: PrimExpr) -> PrimExpr:
        found = self.node(expr)
        assert isinstance(found, PrimExpr)
        return found

    def _region(self, region: BufferRegion) -> BufferRegion:
        dims = tuple(Range(self._expr(r.min), self._expr(r.extent), r.span) for r in region.region)
        return BufferRegion(self.buffer(region.buffer), dims)
