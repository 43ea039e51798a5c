"""Replace stores that copy from global to shared memory by `cp.async`, where a pipeline allows it.

    attr async_scope:                             for i in 4:
      for i in 4:                            →      ptx_cp_async(S, tx*4 + i*128, A, ..., 16)
        S[ramp(tx*4 + i*128)] = A[ramp(...)]

Elements that are zero under a condition, as those of padding are, are then not read. Stores that cannot be copied so
stay, such as those of elements that are converted or lie apart.
"""

from __future__ import annotations

from compiler.arith.analyzer import Analyzer
from compiler.dtype import element_of, lanes_of, parse_dtype
from compiler.ir.base import Node, Op
from compiler.ir.visit import map_children
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.ptx import COPY_BYTES, ptx_cp_async
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import walk_stmts

ASYNC_SCOPE = "async_scope"  # an attribute around copies whose end is waited for
_SHARED = ("shared", "shared.dyn")
_IF_THEN_ELSE = Op.get("tir.if_then_else")


@tir_pass("InjectPTXAsyncCopy", gives=LoweringStage.LOWERED)
def inject_async_copy(func: n.PrimFunc) -> n.PrimFunc:
    """Replace copies to shared memory that a pipeline runs asynchronously by `cp.async`.

    The buffers of `func` are flat, and its vectors are written.
    """
    if not any(isinstance(node, n.AttrStmt) and node.attr_key == ASYNC_SCOPE for node in walk_stmts(func.body)):
        return func
    scopes = {node.buffer_var: node.scope for node in walk_stmts(func.body) if isinstance(node, n.Allocate)}
    analyzer = Analyzer()

    def outside(node: Node) -> Node:
        match node:
            case PrimExpr():
                return node
            case n.For():
                analyzer.bind(node.loop_var, n.Range(node.min, node.extent))
            case n.AttrStmt(attr_key=key) if key == ASYNC_SCOPE:
                return inside(node.body)
            case _:
                pass
        return map_children(node, outside)

    def inside(node: Node) -> Node:
        match node:
            case PrimExpr():
                return node
            case n.For():
                analyzer.bind(node.loop_var, n.Range(node.min, node.extent))
            case n.BufferStore():
                return _copied(node, scopes, analyzer) or node
            case _:
                pass
        return map_children(node, inside)

    body = outside(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _copied(store: n.BufferStore, scopes: dict[n.Var, str], analyzer: Analyzer) -> Stmt | None:
    """The store as a copy that goes on by itself; None where there is none."""
    target = store.buffer
    condition, value = _read_where(store.value)
    if not isinstance(value, n.BufferLoad):
        return None
    source = value.buffer
    if scopes.get(target.data) not in _SHARED or scopes.get(source.data, "global") != "global":
        return None
    element = element_of(value.dtype)
    if element_of(target.dtype) != element or lanes_of(target.dtype) != 1 or lanes_of(source.dtype) != 1:
        return None
    lanes = lanes_of(value.dtype)
    size = lanes * parse_dtype(element).bits // 8
    to, start = _first(store.indices[0], lanes), _first(value.indices[0], lanes)
    if size not in COPY_BYTES or parse_dtype(element).bits < 8 or to is None or start is None:
        return None
    if not (_is_multiple(analyzer, to, lanes) and _is_multiple(analyzer, start, lanes)):
        return None
    return n.Evaluate(ptx_cp_async(element, target.data, to, source.data, start, size, condition))


def _read_where(value: PrimExpr) -> tuple[PrimExpr | None, PrimExpr]:
    """The condition without which `value` is zero, and what it is otherwise."""
    match value:
        case n.Call(args=(condition, read, other)) if value.op is _IF_THEN_ELSE and condition.dtype == "bool":
            zero = other.value if isinstance(other, n.Broadcast) else other
            if ops.is_const(zero, 0):
                return condition, read
    return None, value


def _first(index: PrimExpr, lanes: int) -> PrimExpr | None:
    """The index of the first of neighbouring elements; None where the elements are not neighbours."""
    if lanes == 1:
        return index
    match index:
        case n.Ramp(base=base, stride=stride) if ops.is_const(stride, 1):
            return base
    return None


def _is_multiple(analyzer: Analyzer, index: PrimExpr, lanes: int) -> bool:
    coefficient, base = analyzer.modular_set(index)
    return coefficient % lanes == 0 and base % lanes == 0
