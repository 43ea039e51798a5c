"""Prefetch the next group of panels while a sum uses the present one.

    for g in T.parallel(39):            # a group of panels, in the caches while all rows use it
      for i in range(26):
        for k in range(768):            # annotations={"software_prefetch": "group"}
          prefetch W[(g + 1) * 61440 + (i * 768 + k) * 4]
          C[i …] += A[i, k] * W[g * 61440 + k * 80 …]

A group comes from memory, and its first use leaves no time for that. All steps of the group before share its lines: of
more at a time, a core has no room to wait for. The last group asks for what lies behind the buffer, and prefetches
never fault.

Where the parallel loop goes through `g * 7 + y`, and `W` is read at `g`, those seven iterations are the group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.arith.analyzer import Analyzer
from compiler.ir.visit import walk
from compiler.lower.loops.prefetch_reads import AffineRead, affine_reads, line_elements, prefetch
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import free_vars, substitute

NEXT_GROUP = "group"
"""A distance of `software_prefetch`."""
NEXT_TASK = "task"
"""Another: what the next iteration of the parallel loop reads, wherever in it."""

NEXT_PANEL = "panel"
"""And another: what the next iteration of the nearest loop around reads, of those with which that moves."""

_MOST_LINES = 1.5  # of a group in a step; of more, memory is read all the time, which its prefetchers see
_LEAST_USES = 6  # times that lines are read for each that may be fetched, where a step reads many
_MOST_OF_TASK = 3  # lines of the next task in a step
_UNKNOWN = 1 << 40  # and more iterations: their number is not known
_SHARED = 4  # steps that ask for the same line; with more, a group is used so often that its first use costs little
_L2 = 2  # locality, as LLVM counts it


def group_fetches(loop: n.For, around: Sequence[n.For], given: frozenset[n.Var]) -> list[Stmt]:
    """Return the prefetches in each iteration of `loop` for the next one of the innermost parallel loop.
    `around` are the loops that `loop` is in. There are no prefetches where sizes are not known, or where nothing
    that is read moves with both loops by a line or more."""
    at = _innermost_parallel(around)
    if at is None:
        return []
    group = _group_of(loop, around, at)
    return group.all_fetches(given) if group.is_known else []


def panel_fetches(loop: n.For, around: Sequence[n.For], given: frozenset[n.Var]) -> list[Stmt]:
    """Return the prefetches in each iteration of `loop` for the next one of a loop around it.
    That is the innermost with which moves what `loop` reads. Between the two are loops that read the same again,
    and fetch a part each."""
    for at in reversed(range(len(around))):
        group = _group_of(loop, around, at)
        if not group.is_known:
            return []
        if _most(around[at]) > 1 and (found := group.all_fetches(given)):
            return found
    return []


def _group_of(loop: n.For, around: Sequence[n.For], at: int) -> _Group:
    inner = tuple(node for node in walk(loop.body) if isinstance(node, n.For))
    return _Group(around[at], (*around[at + 1 :], loop), inner)


def task_fetches(loop: n.For, around: Sequence[n.For], given: frozenset[n.Var]) -> list[Stmt]:
    """Return the prefetches in each iteration of `loop` for the next one of the innermost parallel loop.
    Other loops read it, before or after this one; a copy into another layout does, whose source is read once."""
    at = _innermost_parallel(around)
    if at is None:
        return []
    parallel, stepped = around[at], (*around[at + 1 :], loop)
    inner = {node.loop_var: _most(node) for node in walk(parallel.body) if isinstance(node, n.For)}
    counts = tuple(map(_most, stepped))
    steps = math.prod(counts)
    pieces = dict[n.Var, _Piece]()
    for read in affine_reads(parallel, given, lambda place: [var for var in free_vars(place) if var in inner]):
        size = read.lanes + sum(abs(f) * (inner[v] - 1) for f, v in zip(read.factors, read.variables, strict=True))
        known = pieces.get(read.buffer.data)
        piece = _Piece(read.buffer, read.start, size)
        pieces[read.buffer.data] = piece if known is None else known.joined(piece)
    number = _position(ops.const(0), stepped, counts)
    found = list[Stmt]()
    for piece in pieces.values():
        share, apart = -(-piece.size // steps), piece.apart(parallel.loop_var)
        line = line_elements(piece.buffer)
        if not 0 < steps < _UNKNOWN or apart != piece.size or not line < piece.size <= steps * _MOST_OF_TASK * line:
            continue
        following = substitute(piece.start, {parallel.loop_var: ops.add(parallel.loop_var, 1)})
        first = ops.add(following, ops.mul(number, share))
        found += [prefetch(piece.buffer, ops.add(first, at), _L2) for at in range(0, share, line)]
    return found


@dataclass(frozen=True)
class _Piece:
    """`size` elements of a buffer from `start` on, all of which an iteration reads."""

    buffer: n.Buffer
    start: PrimExpr
    size: int

    def joined(self, other: _Piece) -> _Piece:
        """Both pieces and what is between them. Without a known distance, of a size that nothing has."""
        apart = ops.as_int(Analyzer().simplify(ops.sub(other.start, self.start)))
        if apart is None:
            return _Piece(self.buffer, self.start, _UNKNOWN)
        first, last = min(0, apart), max(self.size, apart + other.size)
        return _Piece(self.buffer, other.start if apart < 0 else self.start, last - first)

    def apart(self, var: n.Var) -> int | None:
        """Return how far the next value of `var` moves the piece."""
        following = substitute(self.start, {var: ops.add(var, 1)})
        return ops.as_int(Analyzer().simplify(ops.sub(following, self.start)))


@dataclass(frozen=True)
class _Group:
    """An iteration of `parallel`, a loop of threads or any other.
    It has the loops down to the annotated one, whose iterations are `steps`, and the loops `inside` a step."""

    parallel: n.For
    stepped: tuple[n.For, ...]
    inside: tuple[n.For, ...]

    @property
    def variables(self) -> tuple[n.Var, ...]:
        return tuple(each.loop_var for each in (*self.stepped, *self.inside))

    @cached_property
    def most(self) -> tuple[int, ...]:
        """Numbers that `variables` are always less than."""
        return tuple(_most(each) for each in (*self.stepped, *self.inside))

    @property
    def steps(self) -> int:
        return math.prod(self.most[: len(self.stepped)])

    @property
    def is_known(self) -> bool:
        return 0 < self.steps < _UNKNOWN and max(self.most) < _UNKNOWN

    def all_fetches(self, given: frozenset[n.Var]) -> list[Stmt]:
        """The prefetches of a step, of all buffers behind `given`."""
        fetched, found = set[n.Var](), list[Stmt]()
        for read in affine_reads(self.stepped[-1], given, lambda _place: self.variables):
            if read.buffer.data not in fetched and self.moves(read) and (fetches := self.fetches(read)):
                fetched.add(read.buffer.data)
                found += fetches
        return found

    def moves(self, read: AffineRead) -> bool:
        """Whether steps that follow each other read lines of their own, and the next group others."""
        apart = read.factors[len(self.stepped) - 1]
        return apart >= line_elements(read.buffer) and self.parallel.loop_var in free_vars(read.start)

    def fetches(self, read: AffineRead) -> list[Stmt]:
        """The prefetches of a step: its share of what the next group reads, unless that is too much."""
        size = read.lanes + sum(abs(f) * (count - 1) for f, count in zip(read.factors, self.most, strict=True))
        repeated, line = _repeated(read.start, self.parallel.loop_var), line_elements(read.buffer)
        steps = self.steps * repeated
        if repeated > 1 and size * _SHARED < steps * line:
            return []
        share = -(-size // steps)
        if share > line * max(_MOST_LINES, read.factors[len(self.stepped) - 1] / line / _LEAST_USES):
            return []
        following = substitute(read.start, {self.parallel.loop_var: ops.add(self.parallel.loop_var, repeated)})
        first = ops.add(following, ops.mul(self._number(repeated), share))
        lines = -(-share // line)
        return [prefetch(read.buffer, ops.add(first, at * line), _L2) for at in range(lines)]

    def _number(self, repeated: int) -> PrimExpr:
        """Return the position of a step in its group, of `repeated` parallel iterations."""
        number: PrimExpr = ops.floormod(self.parallel.loop_var, repeated) if repeated > 1 else ops.const(0)
        return _position(number, self.stepped, self.most)


def _innermost_parallel(around: Sequence[n.For]) -> int | None:
    return max((at for at, loop in enumerate(around) if loop.kind is ForKind.PARALLEL), default=None)


def _position(number: PrimExpr, loops: Sequence[n.For], most: Sequence[int]) -> PrimExpr:
    """Return the position of an iteration of `loops`, one in another, which is `number` outside of them."""
    for loop, count in zip(loops, most, strict=False):
        number = ops.add(ops.mul(number, count), loop.loop_var)
    return number


def _most(loop: n.For) -> int:
    """Return a number that the variable of `loop` is always less than."""
    most = Analyzer().const_int_bound(ops.add(loop.min, loop.extent))[1]
    return _UNKNOWN if most is None else most


def _repeated(place: PrimExpr, var: n.Var) -> int:
    """Return how many values of `var` lead to the same place: n if only var // n is used, else 1."""
    divided = [node for node in walk(place) if isinstance(node, n.FloorDiv) and node.a is var]
    found = {ops.as_int(node.b) for node in divided}
    whole = sum(node is var for node in walk(place)) == len(divided) and len(found) == 1
    return (found.pop() or 1) if whole else 1
