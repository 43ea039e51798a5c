"""Vectorized loops become vector statements.

    for j in T.vectorized(16):                 C[T.Ramp(i*16, 1, 16)] =
      C[i*16 + j] = A[i] * B[j]        →           T.Broadcast(A[i], 16) * B[T.Ramp(0, 1, 16)]

A condition on the loop variable becomes the predicate of the loads and stores under it. A loop that is no power
of two, or longer than a few registers, is done in pieces. What is left of less than a register is one more vector with
a predicate where vectors have masks. A loop that cannot be vectorized runs serially.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.dtype import parse_dtype
from compiler.ir.base import Node
from compiler.ir.transform.config import register_option, truth
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import map_children, replace, walk
from compiler.lower.analysis.rename import substituted
from compiler.lower.loops.interleave import interleaved
from compiler.lower.loops.simplify import NOTHING
from compiler.lower.loops.vectorizer import CannotVectorize, Vectorizer
from compiler.lower.loops.whole_lanes import whole_lanes
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import seq, walk_stmts

REGISTERS_A_PIECE = 8
_SHUFFLED_BITS = 32  # of an element; lanes a few of them apart are loaded by shuffles
_MASKED_BITS = 512
"""Registers from this size on have masks: a masked load or store costs what a plain one does."""
TRANSPOSE = "pragma_transpose"
"""A loop with this annotation reads the columns of a local array, each as a vector. On CPUs with AVX-512 the array is
transposed in registers."""
DISABLE_VECTORIZE = register_option(
    "tir.disable_vectorize", "a truth value", "run vectorized loops one element at a time", truth, False
)


def _enabled(context: PassContext | None) -> bool:
    return not DISABLE_VECTORIZE.value(context)


@tir_pass("VectorizeLoop", gives=LoweringStage.LOWERED, options={"enable_vectorize": _enabled})
def vectorize(func: n.PrimFunc, vector_bits: int = 256, *, enable_vectorize: bool = True) -> n.PrimFunc:
    """Replace vectorized loops by vector statements, or by serial loops.

    The vectors are of a machine with registers of `vector_bits`; if vectorizing is not enabled, loops become serial.
    """

    given = {buffer.data for buffer in func.buffer_map.values()} | set(func.params)
    whole: set[n.Var] = set()
    masks = vector_bits >= _MASKED_BITS

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        if enable_vectorize and isinstance(node, n.For) and (stores := interleaved(node, vector_bits, masks)):
            return stores
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.For) and rebuilt.kind is ForKind.VECTORIZED:
            return _vectorized(rebuilt, vector_bits, may_mask) if enable_vectorize else _serial(rebuilt)
        return rebuilt

    def may_mask(piece: Stmt, columns: bool) -> bool:
        """Whether a piece may have a mask. `columns`: those of local arrays are read by shuffles.
        Small arrays that masks reach into would not become registers."""
        used = [node for node in walk(piece) if isinstance(node, n.BufferLoad | n.BufferStore)]
        stored = [node.buffer for node in used if isinstance(node, n.BufferStore)]
        own = all(buffer.data in given or buffer.scope == "local" for buffer in stored)
        straight = all(_is_straight(node) or (columns and _is_column(node)) for node in used)
        return own and straight and not any(node.buffer.data in whole for node in used)

    while True:
        body = go(func.body)
        assert isinstance(body, Stmt)
        made = func.with_body(body)
        if not masks or not (masked := _masked_arrays(whole_lanes(made).body) - whole):
            return made
        whole |= masked


def _masked_arrays(body: Stmt) -> set[n.Var]:
    """The local arrays that are stored to with masks."""
    stores = [node for node in walk_stmts(body) if isinstance(node, n.BufferStore) and node.predicate is not None]
    return {store.buffer.data for store in stores if store.buffer.scope == "local"}


def _serial(loop: n.For) -> n.For:
    return replace(loop, kind=ForKind.SERIAL)


def _vectorized(loop: n.For, vector_bits: int, may_mask: Callable[[Stmt, bool], bool]) -> Stmt:
    extent = ops.as_int(loop.extent)
    if extent is None:
        return _serial(loop)
    if extent <= 0:
        return NOTHING
    register = max(1, vector_bits // _widest_bits(loop.body))
    try:
        masked = register if vector_bits >= _MASKED_BITS else 0
        return _in_pieces(loop, extent, register * REGISTERS_A_PIECE, masked, may_mask)
    except CannotVectorize:
        return _serial(loop)


def _widest_bits(body: Stmt) -> int:
    """Bits of the widest element the body stores."""
    stores = [s for s in walk_stmts(body) if isinstance(s, n.BufferStore)]
    return max((parse_dtype(s.buffer.dtype).bits for s in stores), default=32)


def _in_pieces(loop: n.For, extent: int, most: int, masked: int, may_mask: Callable[[Stmt, bool], bool]) -> Stmt:
    """The loop as vectors whose lane counts are powers of two, at most `most`.
    What is left of less than `masked` lanes is one vector with a mask, where it would be several and `may_mask`."""
    largest = 1 << (most.bit_length() - 1)
    parts: list[Stmt] = []
    done = 0
    if extent >= 2 * largest:
        count = extent // largest
        parts.append(_piece_loop(loop, count, largest))
        done = count * largest
    while done < extent:
        left = extent - done
        if left < masked and left.bit_count() > 1:
            last = _masked_piece(loop, done, left, first=not parts)
            if last is not None and may_mask(last, TRANSPOSE in loop.annotations):
                return seq(*parts, last)
        lanes = 1 << (min(left, largest).bit_length() - 1)
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


def _masked_piece(loop: n.For, done: int, left: int, first: bool) -> Stmt | None:
    """Return the last `left` iterations as the first lanes of one vector.
    None if its other lanes cannot be disabled."""
    lanes = 1 << left.bit_length()
    base = ops.add(loop.min, done)
    zero, one, count = (ops.const(value, base.dtype) for value in (0, 1, left))
    body = loop.body if first else substituted(loop.body, {})
    try:
        return Vectorizer(loop.loop_var, n.Ramp(base, one, lanes)).stmt(
            body, n.LT(n.Ramp(zero, one, lanes), n.Broadcast(count, lanes))
        )
    except CannotVectorize:
        return None


def _is_straight(node: n.BufferLoad | n.BufferStore) -> bool:
    """Whether an access has no mask, or a mask costs little.
    Lanes are gathered one by one anyway, unless they are neighbours or at most four apart in a load."""
    if node.predicate is None:
        return True
    last = node.indices[-1]
    shuffled = isinstance(node, n.BufferLoad) and parse_dtype(node.buffer.dtype).bits >= _SHUFFLED_BITS
    return isinstance(last, n.Ramp) and ops.as_int(last.stride) in ((1, 2, 3, 4) if shuffled else (1,))


def _is_column(node: n.BufferLoad | n.BufferStore) -> bool:
    """Whether a load takes one element of each of several vectors of 512 bits."""
    if isinstance(node, n.BufferStore) or node.buffer.scope != "local":
        return False
    last, bits = node.indices[-1], parse_dtype(node.buffer.dtype).bits
    stride = ops.as_int(last.stride) if isinstance(last, n.Ramp) else None
    return bits == 32 and stride is not None and stride > 0 and stride * bits % _MASKED_BITS == 0
