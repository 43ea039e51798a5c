"""Functions over sizes: with numbers in the place of variables, and with indices of one width."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.ir.visit import replace, walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, PrimFunc
from compiler.tir.nodes.specialize import RenewedDefinitions


def with_sizes(func: PrimFunc, sizes: Mapping[n.Var, int]) -> PrimFunc:
    """The function with numbers for variables of its shapes, worked out where only numbers are left."""
    return _rebuilt(func, _Sized({var: n.IntImm(var.dtype, size) for var, size in sizes.items()}))


def narrow_indices(func: PrimFunc) -> PrimFunc | None:
    """Return the function with sizes and indices of int32; None where it computes with int64.

    Its extents are simplified. Sizes that its arguments tell become variables that are never negative.
    """
    inside = (buffer for node in walk(func.body) if isinstance(node, n.Block) for buffer in node.alloc_buffers)
    dtypes = {node.dtype for node in walk(func.body) if isinstance(node, n.Call | n.Let)}
    dtypes |= {buffer.dtype for buffer in (*func.buffer_map.values(), *inside)}
    if any(dtype.startswith("int64") for dtype in (*dtypes, *(param.dtype for param in func.params))):
        return None
    extents = {dim: None for buffer in func.buffer_map.values() for dim in buffer.shape if isinstance(dim, n.Var)}
    return _rebuilt(func, _Narrow({var: n.SizeVar(var.name, "int32") for var in extents}))


def _rebuilt(func: PrimFunc, renewed: RenewedDefinitions) -> PrimFunc:
    buffers = {param: renewed.buffer(buffer) for param, buffer in func.buffer_map.items()}
    body = renewed.node(func.body)
    assert isinstance(body, n.Stmt)
    return PrimFunc(func.params, body, func.ret_type, buffers, func.attrs, func.span)


class _Sized(RenewedDefinitions):
    def node(self, node: Node) -> Node:
        rebuilt = super().node(node)
        return ops.binary(type(rebuilt), rebuilt.a, rebuilt.b) if isinstance(rebuilt, n.BinaryOp) else rebuilt


class _Narrow(RenewedDefinitions):
    """Makes variables of int64 anew where they are defined, and numbers where they stand."""

    def __init__(self, known: dict[n.Var, PrimExpr]) -> None:
        super().__init__(known)
        self._analyzer = Analyzer()

    def node(self, node: Node) -> Node:
        match node:
            case n.IntImm(dtype="int64", value=value):
                return n.IntImm("int32", value, node.span)
            case n.Cast(dtype="int64", value=value):
                inner = self._expr(value)
                return inner if inner.dtype == "int32" else n.Cast("int32", inner, node.span)
            case n.For():
                bounds = self._extent(node.min), self._extent(node.extent)
                loop_var = self._defined(node.loop_var)
                body = self.node(node.body)
                assert isinstance(body, n.Stmt)
                return n.For(loop_var, *bounds, node.kind, body, node.thread_binding, node.annotations, node.span)
            case n.Block():
                axes = [self._axis(axis) for axis in node.iter_vars]
                return super().node(replace(node, iter_vars=tuple(axes)))
            case n.IterVar():
                return node  # made anew with its block
        return super().node(node)

    def _axis(self, axis: n.IterVar) -> n.IterVar:
        dom = axis.dom and n.Range(self._extent(axis.dom.min), self._extent(axis.dom.extent), axis.dom.span)
        return replace(axis, var=self._defined(axis.var), dom=dom)

    def _defined(self, var: n.Var) -> n.Var:
        if var.dtype != "int64":
            return var
        made = self._known[var] = type(var)(var.name, "int32", var.span)
        return made

    def _extent(self, expr: PrimExpr) -> PrimExpr:
        return self._analyzer.simplify(self._expr(expr))

    def buffer(self, buffer: n.Buffer) -> n.Buffer:
        found = self._buffers.get(buffer)
        if found is None:
            made = super().buffer(buffer)
            shape = tuple(map(self._analyzer.simplify, made.shape))
            found = self._buffers[buffer] = replace(made, shape=shape) if shape != made.shape else made
        return found
