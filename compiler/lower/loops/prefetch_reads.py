"""Places that loops read, as affine expressions, and the prefetches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from compiler.arith.affine import as_affine
from compiler.dtype import parse_dtype
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Stmt

_CACHE_LINE = 64  # bytes: what one prefetch fetches


@dataclass(frozen=True, slots=True)
class AffineRead:
    """A load of `lanes` elements from `start` + the sum of factor · variable.
    `start` holds no load, and no variable that is defined in the loop."""

    buffer: n.Buffer
    variables: tuple[n.Var, ...]
    factors: tuple[int, ...]
    start: PrimExpr
    lanes: int


def affine_reads(
    loop: n.For, given: frozenset[n.Var], variables: Callable[[PrimExpr], Sequence[n.Var]]
) -> Iterator[AffineRead]:
    """Find what `loop` reads of buffers behind `given`, at places that are affine in `variables`.
    Buffers that it writes do not count. The variables are those of the place."""
    stored = {node.buffer.data for node in walk(loop.body) if isinstance(node, n.BufferStore)}
    defined = {node.var for node in walk(loop.body) if isinstance(node, n.LetStmt | n.Let)}
    for load in walk(loop.body):
        if not isinstance(load, n.BufferLoad) or load.buffer.data not in given - stored or len(load.indices) != 1:
            continue
        place = load.indices[0]
        base, lanes = (place.base, place.lanes) if isinstance(place, n.Ramp) else (place, 1)
        moving = tuple(variables(base))
        affine = as_affine(base, moving)
        if affine is None or any(isinstance(node, n.BufferLoad) or node in defined for node in walk(affine[1])):
            continue
        yield AffineRead(load.buffer, moving, *affine, lanes)


def line_elements(buffer: n.Buffer) -> int:
    """Return how many elements of `buffer` a line of the cache has."""
    return max(_CACHE_LINE * 8 // parse_dtype(buffer.dtype).bits, 1)


def prefetch(buffer: n.Buffer, place: PrimExpr, locality: int) -> Stmt:
    """Ask for the line around `place`; `locality` is LLVM's: 3 for all caches, 2 for the second level on."""
    return n.Evaluate(intrin.call("tir.prefetch", "int32", n.BufferLoad(buffer, (place,)), 0, locality, 1))
