"""Vectorized loops become vector statements.

    for j in T.vectorized(16):                 C[T.Ramp(i*16, 1, 16)] =
      C[i*16 + j] = A[i] * B[j]        →           T.Broadcast(A[i], 16) * B[T.Ramp(0, 1, 16)]

A condition on the loop variable becomes the predicate of the loads and stores under it. A loop that is no power
of two, or longer than a few registers, is done in pieces. A loop that cannot be vectorized runs serially.
"""

from __future__ import annotations

from compiler.dtype import parse_dtype
from compiler.ir.base import Node
from compiler.ir.transform.config import register_option, truth
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import map_children, replace
from compiler.lower.analysis.rename import substituted
from compiler.lower.loops.simplify import NOTHING
from compiler.lower.loops.vectorizer import CannotVectorize, Vectorizer
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import Stage
from compiler.tir.visit import seq, walk_stmts

REGISTERS_A_PIECE = 8
DISABLE_VECTORIZE = register_option(
    "tir.disable_vectorize", "a truth value", "vectorized loops run one element at a time instead", truth, False
)


def _enabled(context: PassContext | None) -> bool:
    return not DISABLE_VECTORIZE.value(context)


@tir_pass("VectorizeLoop", gives=Stage.LOWERED, options={"enable_vectorize": _enabled})
def vectorize(func: n.PrimFunc, vector_bits: int = 256, *, enable_vectorize: bool = True) -> n.PrimFunc:
    """Replace vectorized loops by vector statements, or by serial loops.

    The vectors are of a machine with registers of `vector_bits`; loops become serial where not enabled.
    """

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.For) and rebuilt.kind is ForKind.VECTORIZED:
            return _vectorized(rebuilt, vector_bits) if enable_vectorize else replace(rebuilt, kind=ForKind.SERIAL)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _vectorized(loop: n.For, vector_bits: int) -> Stmt:
    extent = ops.as_int(loop.extent)
    if extent is None:
        return replace(loop, kind=ForKind.SERIAL)
    if extent <= 0:
        return NOTHING
    most = max(1, vector_bits * REGISTERS_A_PIECE // _widest_bits(loop.body))
    try:
        return _in_pieces(loop, extent, most)
    except CannotVectorize:
        return replace(loop, kind=ForKind.SERIAL)


def _widest_bits(body: Stmt) -> int:
    """Bits of the widest element the body stores."""
    stores = [s for s in walk_stmts(body) if isinstance(s, n.BufferStore)]
    return max((parse_dtype(s.buffer.dtype).bits for s in stores), default=32)


def _in_pieces(loop: n.For, extent: int, most: int) -> Stmt:
    """The loop as vectors whose lane counts are powers of two, at most `most`."""
    largest = 1 << (most.bit_length() - 1)
    parts: list[Stmt] = []
    done = 0
    if extent >= 2 * largest:
        count = extent // largest
        parts.append(_piece_loop(loop, count, largest))
        done = count * largest
    while done < extent:
        lanes = 1 << (min(extent - done, largest).bit_length() - 1)
        parts.append(_piece(loop, ops.add(loop.min, done), lanes, first=not parts))
        done += lanes
    return seq(*parts)


def _piece_loop(loop: n.For, count: int, lanes: int) -> Stmt:
    var = n.Var(loop.loop_var.name, loop.loop_var.dtype)
    base = ops.add(loop.min, ops.mul(var, lanes))
    zero = ops.const(0, var.dtype)
    return n.For(var, zero, ops.const(count, var.dtype), ForKind.SERIAL, _piece(loop, base, lanes, first=True))


def _piece(loop: n.For, base: PrimExpr, lanes: int, first: bool) -> Stmt:
    """`lanes` iterations from `base` on; pieces after the first get variables of their own."""
    if lanes == 1:
        return substituted(loop.body, {loop.loop_var: base})
    body = loop.body if first else substituted(loop.body, {})
    ramp = n.Ramp(base, ops.const(1, base.dtype), lanes)
    return Vectorizer(loop.loop_var, ramp).stmt(body, None)
