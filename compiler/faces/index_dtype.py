"""Functions with sizes, loops and indices of another integer type, as `te.create_prim_func` takes it."""

from __future__ import annotations

from typing import TypeVar

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_NARROW = "int32"
AnyNode = TypeVar("AnyNode", bound=Node)


def with_index_dtype(func: n.PrimFunc, dtype: str) -> n.PrimFunc:
    """Return the function with sizes, loops and indices of `dtype` in place of int32.

    Values keep their types. Raises IRError for a type that is not int32 or int64.
    """
    if dtype not in (_NARROW, "int64"):
        raise IRError(f"indices are int32 or int64, not {dtype!r}")
    return func if dtype == _NARROW else _Widening(func, dtype).result()


class _Widening:
    def __init__(self, func: n.PrimFunc, dtype: str) -> None:
        self._func = func
        self._dtype = dtype
        held = [*func.params, *(size for buffer in func.buffer_map.values() for size in buffer.shape)]
        for node in walk(func.body):
            if isinstance(node, n.For):
                held.append(node.loop_var)
            elif isinstance(node, n.Block):
                held += [axis.var for axis in node.iter_vars]
        narrow = [var for var in held if isinstance(var, n.Var) and var.dtype == _NARROW]
        self._vars = {var: type(var)(var.name, dtype) for var in narrow}
        self._buffers: dict[n.Buffer, n.Buffer] = {}

    def result(self) -> n.PrimFunc:
        func = self._func
        params = tuple(self._vars.get(param, param) for param in func.params)
        buffers = {param: self._buffer(buffer) for param, buffer in func.buffer_map.items()}
        return replace(func, params=params, buffer_map=buffers, body=self._value(func.body))

    def _index(self, expr: PrimExpr) -> PrimExpr:
        """An int32 expression as one of the wide type."""
        if expr.dtype != _NARROW:
            return self._value(expr)
        if isinstance(expr, n.IntImm):
            return n.IntImm(self._dtype, expr.value)
        if isinstance(expr, n.Var) and expr in self._vars:
            return self._vars[expr]
        if isinstance(expr, n.BinaryOp):
            return type(expr)(self._index(expr.a), self._index(expr.b))
        return n.Cast(self._dtype, self._value(expr))

    def _is_index(self, expr: PrimExpr) -> bool:
        """Whether it is made of sizes, loops and numbers only."""
        return all(isinstance(node, n.IntImm | n.BinaryOp) or node in self._vars for node in walk(expr))

    def _value(self, node: AnyNode) -> AnyNode:
        """A node whose own type stays; indices in it are wide."""
        made: Node
        match node:
            case n.Var() if node in self._vars:
                made = n.Cast(_NARROW, self._vars[node])
            case n.CmpOp() if node.a.dtype == _NARROW:
                made = type(node)(self._index(node.a), self._index(node.b))
            case n.Cast() if node.value.dtype == _NARROW and self._is_index(node.value):
                made = n.Cast(node.dtype, self._index(node.value))
            case n.BufferLoad():
                made = replace(node, buffer=self._buffer(node.buffer), indices=tuple(map(self._index, node.indices)))
            case n.BufferStore():
                at = tuple(map(self._index, node.indices))
                made = replace(node, buffer=self._buffer(node.buffer), value=self._value(node.value), indices=at)
            case n.For() if node.loop_var in self._vars:
                low, extent = self._index(node.min), self._index(node.extent)
                made = replace(
                    node, loop_var=self._vars[node.loop_var], min=low, extent=extent, body=self._value(node.body)
                )
            case n.BlockRealize():
                values = tuple(map(self._index, node.iter_values))
                made = replace(
                    node, iter_values=values, predicate=self._value(node.predicate), block=self._block(node.block)
                )
            case _:
                made = map_children(node, self._value)
        return made  # type: ignore[return-value]

    def _block(self, block: n.Block) -> n.Block:
        axes = tuple(
            replace(axis, dom=self._range(axis.dom), var=self._vars.get(axis.var, axis.var)) for axis in block.iter_vars
        )
        return replace(
            block,
            iter_vars=axes,
            reads=tuple(map(self._region, block.reads)),
            writes=tuple(map(self._region, block.writes)),
            alloc_buffers=tuple(map(self._buffer, block.alloc_buffers)),
            match_buffers=tuple(
                n.MatchBufferRegion(match.buffer, self._region(match.source)) for match in block.match_buffers
            ),
            init=None if block.init is None else self._value(block.init),
            body=self._value(block.body),
        )

    def _region(self, region: n.BufferRegion) -> n.BufferRegion:
        bounds = tuple(n.Range(self._index(part.min), self._index(part.extent)) for part in region.region)
        return n.BufferRegion(self._buffer(region.buffer), bounds)

    def _range(self, bounds: n.Range | None) -> n.Range | None:
        return None if bounds is None else n.Range(self._index(bounds.min), self._index(bounds.extent))

    def _buffer(self, buffer: n.Buffer) -> n.Buffer:
        if buffer not in self._buffers:
            shape = tuple(map(self._index, buffer.shape))
            strides = tuple(map(self._index, buffer.strides))
            self._buffers[buffer] = replace(buffer, shape=shape, strides=strides)
        return self._buffers[buffer]
