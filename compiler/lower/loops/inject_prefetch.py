"""Loops that prefetch what a later iteration reads.

    for j in T.serial(256, annotations={"software_prefetch": 2}):
      C[j * 16 …] += A[k] * B[k, j * 16 …]        →       prefetch B[k, (j + 2) * 16]
                                                          C[j * 16 …] += A[k] * B[k, j * 16 …]

A loop prefetches from the function's own buffers that it only reads, in parts that move with the loop. (What the
function allocates was made here, and is near.) Each cache line is fetched once an iteration. A prefetch never faults,
so the last iterations may ask for what lies behind the buffer, without a condition. A distance of 0 asks for nothing.
"extent" is the loop's number of iterations: it fetches for the loop's next run, unless that reads the same. "group"
fetches what the parallel loop around it reads next (prefetch_group.py), "task" also what other loops in that one do.
"panel" fetches what the next iteration of the nearest loop around reads elsewhere. Functions with bound loops ignore
the annotation, because memory of GPUs has no such hint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from compiler.arith.analyzer import Analyzer
from compiler.errors import LoweringError
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.lower.gpu.thread_axes import is_bound
from compiler.lower.loops.prefetch_group import (
    NEXT_GROUP,
    NEXT_PANEL,
    NEXT_TASK,
    group_fetches,
    panel_fetches,
    task_fetches,
)
from compiler.lower.loops.prefetch_reads import affine_reads, line_elements, prefetch
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, seq

SOFTWARE_PREFETCH = "software_prefetch"
WHOLE_LOOP = "extent"  # a distance
_NAMED = {NEXT_GROUP: group_fetches, NEXT_TASK: task_fetches, NEXT_PANEL: panel_fetches}
_MOST_LINES = 64  # of an iteration: of more, the first would be gone, or hold up all else
_MOST_OFFSETS = _MOST_LINES * 64  # of an iteration: as many as those lines have bytes
_ALL_CACHES = 3  # locality, as LLVM counts it


@tir_pass("InjectPrefetch", gives=LoweringStage.FLAT)
def inject_prefetch(func: n.PrimFunc) -> n.PrimFunc:
    """Make loops annotated with `software_prefetch` prefetch what a later iteration reads.

    Raises LoweringError for a distance that is no number, a loop of vectors, or one that reads too much in an
    iteration.
    """
    if is_bound(func):
        return func
    given = frozenset(buffer.data for buffer in func.buffer_map.values())

    def go(node: Node, around: tuple[n.For, ...] = ()) -> Node:
        if isinstance(node, PrimExpr):
            return node
        inside = (*around, node) if isinstance(node, n.For) else around
        rebuilt = map_children(node, lambda child: go(child, inside))
        if isinstance(rebuilt, n.For) and SOFTWARE_PREFETCH in rebuilt.annotations:
            return _fetching(rebuilt, around, given)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _fetching(loop: n.For, around: tuple[n.For, ...], given: frozenset[n.Var]) -> n.For:
    found, name = loop.annotations[SOFTWARE_PREFETCH], loop.loop_var.name
    without = {k: v for k, v in loop.annotations.items() if k != SOFTWARE_PREFETCH}
    if isinstance(found, str) and (fetches := _NAMED.get(found)) is not None:
        return replace(loop, annotations=without, body=seq(*fetches(loop, around, given), loop.body))
    next_run = isinstance(found, str) and found == WHOLE_LOOP
    distance = ops.as_int(loop.extent if next_run else found)
    if distance is None or distance < 0:
        raise LoweringError(
            f"{SOFTWARE_PREFETCH} of loop {name!r} is {found!r}",
            hint=f"it is a number of iterations, at least 0, {WHOLE_LOOP!r}, where that is known, or one of "
            + ", ".join(map(repr, _NAMED)),
        )
    if loop.kind is ForKind.VECTORIZED:
        raise LoweringError(f"{SOFTWARE_PREFETCH}: loop {name!r} is vectorized", hint="annotate a loop around it")
    if distance == 0:
        return replace(loop, annotations=without)
    streams = [s for s in _streams(loop, given) if not next_run or free_vars(s.start)]
    lines = sum(len(stream.lines) for stream in streams)
    if lines > _MOST_LINES:
        raise _too_much(loop, lines)
    asked = [stream.fetch(loop, distance) for stream in streams]
    return replace(loop, annotations=without, body=seq(*asked, loop.body))


@dataclass
class _Stream:
    """The elements of a buffer that a loop reads: at `start` + `step` · iteration + each of `offsets`."""

    buffer: n.Buffer
    start: PrimExpr
    step: int
    offsets: set[int]

    @property
    def share(self) -> int:
        """Iterations that read the same line."""
        return max(line_elements(self.buffer) // abs(self.step), 1)

    @property
    def lines(self) -> list[int]:
        """One offset in each line that is read until another iteration starts a line."""
        covered = {offset + self.step * i for offset in self.offsets for i in range(self.share)}
        return list(_apart(covered, line_elements(self.buffer)))

    def fetch(self, loop: n.For, distance: int) -> Stmt:
        """Prefetches of the lines, `distance` iterations ahead; for iterations that share them, in the first."""
        later = ops.add(self.start, ops.mul(ops.add(loop.loop_var, distance), self.step))
        asked = seq(*(prefetch(self.buffer, ops.add(later, line), _ALL_CACHES) for line in self.lines))
        if self.share == 1:
            return asked
        return n.IfThenElse(ops.equal(ops.floormod(loop.loop_var, self.share), 0), asked)


def _apart(offsets: Iterable[int], line: int) -> Iterator[int]:
    """Return the fewest of `offsets` that touch every line which all of them touch."""
    last: int | None = None
    for offset in sorted(offsets):
        if last is None or offset >= last + line:
            last = offset
            yield offset


def _streams(loop: n.For, given: frozenset[n.Var]) -> list[_Stream]:
    """Return the reads of `loop` from the buffers behind `given` whose place moves with each iteration.
    The place must be known before."""
    inner = {node.loop_var: node for node in walk(loop.body) if isinstance(node, n.For)}

    def moving(place: PrimExpr) -> tuple[n.Var, ...]:
        return (loop.loop_var, *(var for var in free_vars(place) if var in inner))

    analyzer, found = Analyzer(), list[_Stream]()
    for read in affine_reads(loop, given, moving):
        (step, *factors), start = read.factors, read.start
        if step == 0 or read.lanes > 1:
            continue
        offsets = _offsets(loop, [inner[var] for var in read.variables[1:]], factors)
        for known in found:
            apart = ops.as_int(analyzer.simplify(ops.sub(start, known.start)))
            if known.buffer.data is read.buffer.data and known.step == step and apart is not None:
                known.offsets |= {offset + apart for offset in offsets}
                break
        else:
            found.append(_Stream(read.buffer, start, step, offsets))
    return found


def _offsets(loop: n.For, moving: Sequence[n.For], factors: Sequence[int]) -> set[int]:
    """How far apart the elements are that one iteration of `loop` reads over the loops `moving`."""
    runs = []
    for node, factor in zip(moving, factors, strict=True):
        least, extent = ops.as_int(node.min), ops.as_int(node.extent)
        if least is None or extent is None:
            raise _too_much(loop, None)
        runs.append([factor * (least + i) for i in range(extent)])
    count = math.prod(map(len, runs))
    if count > _MOST_OFFSETS:
        raise _too_much(loop, None)
    return {sum(place) for place in product(*runs)}


def _too_much(loop: n.For, lines: int | None) -> LoweringError:
    read = "more than can be told" if lines is None else f"{lines} lines of the cache"
    return LoweringError(
        f"{SOFTWARE_PREFETCH}: an iteration of loop {loop.loop_var.name!r} reads {read}",
        hint=f"annotate a loop inside it: at most {_MOST_LINES} lines can be on their way",
    )
