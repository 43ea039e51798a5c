"""Vectors of every second or fourth element, stored as neighbours.

    for x in T.unroll(4):                          v0 = f(0, ...), v1 = f(1, ...), v2 = ..., v3 = ...
      for j in T.vectorized(16):            →      C[T.Ramp(i, 1, 16)] = T.Shuffle([v0, v1, v2, v3], [0, 16, 32, ...])
        C[i + j * 4 + x] = f(x, j)                 C[T.Ramp(i + 16, 1, 16)] = ...

Each store would write its lanes one by one. Two vectors are put together at a time: each step is a shuffle of two
vectors, which machines have. Results of Winograd's tiles are written so, and groups of narrow numbers are packed so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.arith.affine import as_affine
from compiler.arith.analyzer import Analyzer
from compiler.dtype import lanes_of, parse_dtype
from compiler.ir.visit import walk
from compiler.lower.analysis.conditions import conjuncts
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.analysis.rename import substituted
from compiler.lower.loops.partition_loops import first_iterations
from compiler.lower.loops.vectorizer import CannotVectorize, Vectorizer
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import seq

_WAYS = (2, 4)
_BITS = (8, 16, 32)  # of an element
_MOST_LANES = 128  # of a loop all of whose stores are written out


def interleaved(loop: n.For, vector_bits: int, masks: bool) -> Stmt | None:
    """Return a loop as stores of neighbours.
    It goes over the places between lanes of the vectorized loop in it; others are None. `masks` says whether part of a
    vector may be stored."""
    ways, start = ops.as_int(loop.extent), ops.as_int(loop.min)
    if ways not in _WAYS or start is None or loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
        return None
    rows = list[_Row]()
    for x in range(ways):
        row = _row(substituted(loop.body, {loop.loop_var: ops.const(start + x, loop.loop_var.dtype)}), ways)
        if row is None:
            return None
        rows.append(row)
    count = sum(row.count for row in rows)
    if not all(row.is_after(rows[0], x) and row.count == -(-(count - x) // ways) for x, row in enumerate(rows)):
        return None
    try:
        bits = parse_dtype(rows[0].store.buffer.dtype).bits
        return seq(*_pieces(rows, count, vector_bits // bits, masks))
    except CannotVectorize:
        return None


@dataclass(frozen=True)
class _Row:
    """The stores for one `x`: `count` lanes from `start` on, at places as far apart as there are rows."""

    var: n.Var
    store: n.BufferStore
    start: PrimExpr
    count: int

    def is_after(self, first: _Row, x: int) -> bool:
        """Whether the places are `x` behind those of the `first` row."""
        same = self.store.buffer is first.store.buffer
        return same and ops.as_int(Analyzer().simplify(ops.sub(self.start, first.start))) == x

    def values(self, at: int, lanes: int, count: int) -> PrimExpr:
        """Return what `count` lanes from `at` on store, in a vector of `lanes`."""
        dtype = self.var.dtype
        zero, one = ops.const(0, dtype), ops.const(1, dtype)
        mask = n.LT(n.Ramp(zero, one, lanes), n.Broadcast(ops.const(count, dtype), lanes)) if count < lanes else None
        made = Vectorizer(self.var, n.Ramp(ops.const(at, dtype), one, lanes)).stmt(self.store, mask)
        assert isinstance(made, n.BufferStore)
        return made.value


def _row(body: Stmt, ways: int) -> _Row | None:
    body = _taken(body)
    if not isinstance(body, n.For) or body.kind is not ForKind.VECTORIZED or ops.as_int(body.min) != 0:
        return None
    lanes, var, store = ops.as_int(body.extent), body.loop_var, _taken(body.body)
    condition: PrimExpr | None = None
    if isinstance(store, n.IfThenElse) and store.else_case is None:
        condition, store = store.condition, store.then_case
    if not isinstance(store, n.BufferStore) or store.predicate is not None or len(store.indices) != 1:
        return None
    if parse_dtype(store.buffer.dtype).bits not in _BITS or lanes_of(store.buffer.dtype) != 1 or _reads_itself(store):
        return None
    affine = as_affine(store.indices[0], (var,))
    if affine is None or affine[0] != (ways,) or lanes is None or not 1 < lanes <= _MOST_LANES:
        return None
    count = lanes if condition is None else _first_lanes(body, condition)
    return None if count is None else _Row(var, store, affine[1], count)


def _taken(stmt: Stmt) -> Stmt:
    """Return what runs of a statement with a known condition."""
    while isinstance(stmt, n.IfThenElse) and (known := ops.as_int(stmt.condition)) is not None:
        if not known and stmt.else_case is None:
            return stmt
        stmt = stmt.then_case if known or stmt.else_case is None else stmt.else_case
    return stmt


def _reads_itself(store: n.BufferStore) -> bool:
    return any(isinstance(node, n.BufferLoad) and node.buffer.data is store.buffer.data for node in walk(store.value))


def _first_lanes(loop: n.For, condition: PrimExpr) -> int | None:
    """Return how many lanes a condition holds for, from the first one on.
    None where it holds for others, or where that can't be told."""
    count = first_iterations(loop, conjuncts(condition), LinearForms())
    return None if count is None else ops.as_int(count)


def _pieces(rows: list[_Row], count: int, register: int, masks: bool) -> list[Stmt]:
    """The stores of `count` neighbours, some lanes at a time.
    Without masks, those behind the last whole vector are stored one by one."""
    found, ways, done = list[Stmt](), len(rows), 0
    while (left := count - done * ways) > 0:
        most = -(-left // ways) if masks else left // ways
        lanes = min(register, 1 << ((most - 1).bit_length() if masks else most.bit_length() - 1)) if most else 0
        if lanes < 2:
            found += [_one(row, done) for row in rows[: min(left, ways)]]
            done += 1
            continue
        found.append(_piece(rows, done, lanes, left, register))
        done += lanes
    return found


def _one(row: _Row, at: int) -> Stmt:
    return substituted(row.store, {row.var: ops.const(at, row.var.dtype)})


def _piece(rows: list[_Row], done: int, lanes: int, left: int, register: int) -> Stmt:
    """The stores of `lanes` of each row, of which `left` neighbours are wanted."""
    ways, buffer = len(rows), rows[0].store.buffer
    lets = list[tuple[n.Var, PrimExpr]]()

    def named(value: PrimExpr) -> n.Var:
        lets.append((n.Var("v", value.dtype), value))
        return lets[-1][0]

    counts = [min(lanes, -(-(left - x) // ways)) for x in range(ways)]
    streams = [[named(row.values(done, lanes, counts[x]))] for x, row in enumerate(rows)]
    while len(streams) > 1:
        half = len(streams) // 2
        streams = [_woven(a, b, register, named) for a, b in zip(streams[:half], streams[half:], strict=True)]
    place, stores = ops.add(rows[0].start, done * ways), list[Stmt]()
    for value in streams[0]:
        width = lanes_of(value.dtype)
        if left <= 0:
            break
        zero, one = ops.const(0, place.dtype), ops.const(1, place.dtype)
        first = n.LT(n.Ramp(zero, one, width), n.Broadcast(ops.const(left, place.dtype), width))
        mask = first if left < width else None
        stores.append(n.BufferStore(buffer, value, (n.Ramp(place, one, width),), mask, rows[0].store.span))
        place, left = ops.add(place, width), left - width
    body = seq(*stores)
    for var, named_value in reversed(lets):
        body = n.LetStmt(var, named_value, body)
    return body


def _woven(a: list[n.Var], b: list[n.Var], register: int, named: Callable[[PrimExpr], n.Var]) -> list[n.Var]:
    """Elements of both streams in turns, in vectors of at most `register` lanes."""
    found = list[n.Var]()
    for left, right in zip(a, b, strict=True):
        lanes = lanes_of(left.dtype)
        order = [at // 2 + at % 2 * lanes for at in range(2 * lanes)]
        for part in [order] if 2 * lanes <= register else [order[:lanes], order[lanes:]]:
            found.append(named(n.Shuffle((left, right), tuple(ops.const(at) for at in part))))
    return found
