"""The stores of a scheduled function.

Their operations, their loops, and the memory that their buffers touch.

The features are those of the Ansor paper (L. Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep
Learning", 2020, appendix). Shapes are those that lowering leaves: temporaries count as far as they are used at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from compiler.dtype import is_float, parse_dtype
from compiler.ir.base import Node, Op
from compiler.ir.visit import children, map_children
from compiler.lower.blocks.compact_buffers import compact_buffers
from compiler.lower.blocks.convert_blocks import convert_blocks
from compiler.lower.blocks.lower_match_buffer import lower_match_buffer
from compiler.lower.blocks.plan_allocation import plan_allocation
from compiler.lower.loops.simplify import simplify
from compiler.tir import nodes as n
from compiler.tir.ops import as_int

UNROLL_STEPS = ("pragma_auto_unroll_max_step", "pragma_unroll_max_step")
Reuse = Literal["loop", "serial", "none"]
Interval = tuple[int, int]


@dataclass(frozen=True)
class BufferUse:
    """How a store uses a buffer.
    `bytes` and `lines` count every access, `unique_…` each touched one once. `distance` is how many iterations, and
    bytes, lie between two uses of the same element; `times` how often it is used again."""

    buffer: n.Buffer
    reads: bool
    writes: bool
    bytes: float
    unique_bytes: float
    lines: float
    unique_lines: float
    stride: int
    reuse: Reuse
    distance: tuple[float, float]
    times: float


@dataclass(frozen=True)
class StoreUse:
    """A store: operations of one iteration by kind, the loops around it (outermost first), its buffers.
    `intensity` has a point for each loop, innermost first: floating-point operations, and operations a byte."""

    buffer: n.Buffer
    ops: Mapping[str, int]
    loops: tuple[n.For, ...]
    uses: tuple[BufferUse, ...]
    intensity: tuple[tuple[float, float], ...]
    unroll_step: int
    allocated: int

    @property
    def iterations(self) -> float:
        return product(self.loops)

    @property
    def outside_allocation(self) -> float:
        """Iterations of the loops around the place where the stored buffer is allocated."""
        return product(self.loops[: self.allocated])

    @property
    def elements(self) -> float:
        return math.prod(_extents(self.buffer))

    @property
    def stored_bytes(self) -> float:
        return self.elements * _bytes(self.buffer)


def store_uses(func: n.PrimFunc, line_bytes: int = 64) -> list[StoreUse]:
    """Return the stores of a scheduled function, one a buffer, in the order of the first store to each.

    Stores of constants, as initial values are, are left out.
    """
    lowered = func.with_body(_without_inits(func.body))
    for step in (plan_allocation, lower_match_buffer, convert_blocks, compact_buffers, simplify):
        lowered = step(lowered)
    reader = _Reader(line_bytes)
    reader.visit(lowered.body, ())
    return list(reader.found.values())


def product(loops: Sequence[n.For]) -> float:
    """Return how many iterations the loops have together."""
    return math.prod(extent_of(loop) for loop in loops)


def extent_of(loop: n.For) -> int:
    """Return a loop's iterations, 1 where they are known at the call only."""
    return as_int(loop.extent) or 1


def _without_inits(stmt: n.Stmt) -> n.Stmt:
    def go(node: Node) -> Node:
        node = map_children(node, go)
        if isinstance(node, n.Block) and node.init is not None:
            return replace(node, init=None)
        return node

    found = go(stmt)
    assert isinstance(found, n.Stmt)
    return found


def _bytes(buffer: n.Buffer) -> int:
    return parse_dtype(buffer.dtype).bytes


def _extents(buffer: n.Buffer) -> list[int]:
    return [as_int(extent) or 1 for extent in buffer.shape]


@dataclass
class _Access:
    """The uses of one buffer in one store: each has its indices."""

    buffer: n.Buffer
    indices: list[tuple[n.PrimExpr, ...]] = field(default_factory=list)
    reads: bool = False
    writes: bool = False

    def uses(self, loop: n.For) -> bool:
        """Whether where it goes depends on the loop."""
        return any(_has(index, loop.loop_var) for each in self.indices for index in each)

    def stride(self, loop: n.For) -> int:
        """Return by how many elements an iteration moves it; the least of its indices that move."""
        moves = []
        for each in self.indices:
            offsets = [
                sum(s * _interval(i, at)[0] for s, i in zip(_strides(self.buffer), each) if _interval(i, at) != _ALL)
                for at in ({}, {loop.loop_var: (1, 1)})
            ]
            moves.append(abs(offsets[1] - offsets[0]))
        return min((move for move in moves if move), default=0)

    def touched(self, loops: Sequence[n.For]) -> list[int]:
        """Return the extents of the region that the loops touch, the outer ones standing still."""
        ranges = {loop.loop_var: _loop_range(loop) for loop in loops}
        found = []
        for axis, extent in enumerate(_extents(self.buffer)):
            spans = [_interval(each[axis], ranges) for each in self.indices]
            low, high = min(low for low, _ in spans), max(high for _, high in spans)
            known = (low, high) != _ALL
            found.append(high - low + 1 if known else extent)
        return found

    def bytes_touched(self, loops: Sequence[n.For]) -> float:
        return math.prod(self.touched(loops)) * _bytes(self.buffer)


_ALL: Interval = (-(1 << 40), 1 << 40)


def _loop_range(loop: n.For) -> Interval:
    start = as_int(loop.min) or 0
    return start, start + extent_of(loop) - 1


def _strides(buffer: n.Buffer) -> list[int]:
    strides = [1]
    for extent in reversed(_extents(buffer)[1:]):
        strides.append(strides[-1] * extent)
    return strides[::-1]


def _has(expr: Node, var: n.Var) -> bool:
    return expr is var or any(_has(child, var) for child in children(expr))


def _interval(expr: n.PrimExpr, ranges: Mapping[n.Var, Interval]) -> Interval:
    """Return the least and greatest value of an index; a variable without a range is 0."""
    match expr:
        case n.IntImm():
            return expr.value, expr.value
        case n.Var():
            return ranges.get(expr, (0, 0))
        case n.Cast():
            return _interval(expr.value, ranges)
        case n.BinaryOp():
            a, b = _interval(expr.a, ranges), _interval(expr.b, ranges)
            return _ALL if _ALL in (a, b) else _combined(expr, a, b)
    return _ALL


def _combined(expr: n.BinaryOp, a: Interval, b: Interval) -> Interval:
    match expr:
        case n.Add():
            return a[0] + b[0], a[1] + b[1]
        case n.Sub():
            return a[0] - b[1], a[1] - b[0]
        case n.Mul():
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case n.FloorDiv() | n.Div() if b[0] == b[1] and b[0] > 0:
            return a[0] // b[0], a[1] // b[0]
        case n.FloorMod() | n.Mod() if b[0] == b[1] and b[0] > 0:
            whole = a[0] // b[0] != a[1] // b[0]
            return (0, b[0] - 1) if whole else (a[0] % b[0], a[1] % b[0])
        case n.Min():
            return min(a[0], b[0]), min(a[1], b[1])
        case n.Max():
            return max(a[0], b[0]), max(a[1], b[1])
    return _ALL


class _Reader:
    """Goes through a function and notes its stores."""

    def __init__(self, line_bytes: int) -> None:
        self._line_bytes = line_bytes
        self.found: dict[n.Buffer, StoreUse] = {}
        self._allocated: dict[n.Buffer, int] = {}
        self._steps = [0]
        self._inside: dict[n.For, dict[n.Buffer, list[float]]] = {}  # iterations of each store so far, in a loop
        self._bytes: Counter[n.For] = Counter()  # touched by all stores so far, in a loop

    def visit(self, node: Node, loops: tuple[n.For, ...]) -> None:
        match node:
            case n.For():
                self._within(self._step_of(node), node.body, (*loops, node))
                return
            case n.AttrStmt() if node.attr_key in UNROLL_STEPS:
                self._within(as_int(node.value), node.body, loops)
                return
            case n.Block():
                self._allocated.update(dict.fromkeys(node.alloc_buffers, len(loops)))
            case n.BufferStore() if not isinstance(node.value, n.IntImm | n.FloatImm):
                self._store(node, loops)
                return
        for child in children(node):
            if isinstance(child, n.Stmt | n.Block):
                self.visit(child, loops)

    def _step_of(self, loop: n.For) -> int | None:
        found = [loop.annotations[key] for key in UNROLL_STEPS if key in loop.annotations]
        return as_int(found[0]) if found else None

    def _within(self, step: int | None, body: Node, loops: tuple[n.For, ...]) -> None:
        self._steps.append(self._steps[-1] if step is None else step)
        self.visit(body, loops)
        self._steps.pop()

    def _store(self, store: n.BufferStore, loops: tuple[n.For, ...]) -> None:
        accesses = _accesses(store)
        ops = Counter(_operations(store.value))
        uses = [self._use(access, accesses, loops) for access in accesses]
        uses.sort(key=lambda use: (-use.lines, -use.bytes, use.buffer.name))
        flops = sum(count for kind, count in ops.items() if kind.startswith("float"))
        points = []
        for depth in reversed(range(len(loops))):
            done, touched = flops * product(loops[depth:]), _total(accesses, loops[depth:])
            points.append((done, done / touched))
            self._bytes[loops[depth]] += int(touched)
            for access in accesses:
                self._inside.setdefault(loops[depth], {}).setdefault(access.buffer, []).append(
                    product(loops[depth + 1 :])
                )
        self.found[store.buffer] = StoreUse(
            buffer=store.buffer,
            ops=ops,
            loops=loops,
            uses=tuple(uses),
            intensity=tuple(points),
            unroll_step=self._steps[-1],
            allocated=self._allocated.get(store.buffer, 0),
        )

    def _use(self, access: _Access, accesses: Sequence[_Access], loops: tuple[n.For, ...]) -> BufferUse:
        size, iterations = _bytes(access.buffer), product(loops)
        touched = access.touched(loops)
        unique = math.prod(touched) * size
        reuse, distance, times = self._reuse(access, accesses, loops)
        return BufferUse(
            buffer=access.buffer, reads=access.reads, writes=access.writes, bytes=iterations * size,
            unique_bytes=unique, lines=_lines(access, loops, self._line_bytes),
            unique_lines=max(1.0, unique / min(self._line_bytes, (touched or [1])[-1] * size)),
            stride=access.stride(loops[-1]) if loops else 0, reuse=reuse, distance=distance, times=times,
        )  # fmt: skip

    def _reuse(
        self, access: _Access, accesses: Sequence[_Access], loops: tuple[n.For, ...]
    ) -> tuple[Reuse, tuple[float, float], float]:
        """Look for the innermost loop that uses elements again: itself, or by an earlier store in it."""
        for depth in reversed(range(len(loops))):
            loop = loops[depth]
            if not access.uses(loop):
                inside = loops[depth + 1 :]
                return "loop", (product(inside), _total(accesses, inside)), float(extent_of(loop))
            before = self._inside.get(loop, {}).get(access.buffer)
            if before:
                touched = self._bytes[loop] + _total(accesses, loops[depth:])
                return "serial", (min(before), touched / extent_of(loop)), 1.0
        return "none", (0.0, 0.0), 0.0


def _total(accesses: Sequence[_Access], loops: Sequence[n.For]) -> float:
    return sum(access.bytes_touched(loops) for access in accesses)


def _lines(access: _Access, loops: Sequence[n.For], line_bytes: int) -> float:
    """Return how many cache lines are fetched when a line stays for the innermost loop that moves only."""
    iterations = product(loops)
    for loop in reversed(loops):
        stride = access.stride(loop)
        if stride:
            share = stride * _bytes(access.buffer) / line_bytes
            return max(1.0, iterations * min(1.0, share))
        iterations /= extent_of(loop)
    return 1.0


def _accesses(store: n.BufferStore) -> list[_Access]:
    found: dict[n.Buffer, _Access] = {}

    def go(node: Node) -> None:
        if isinstance(node, n.BufferLoad):
            access = found.setdefault(node.buffer, _Access(node.buffer))
            access.reads = True
            access.indices.append(node.indices)
        for child in children(node):
            go(child)

    go(store.value)
    written = found.setdefault(store.buffer, _Access(store.buffer))
    written.writes = True
    written.indices.append(store.indices)
    return list(found.values())


def _operations(expr: Node) -> Iterator[str]:
    """The kinds of the operations of an expression, those of its indices among them."""
    for child in children(expr):
        yield from _operations(child)
    if not isinstance(expr, n.PrimExpr):
        return
    kind = "float" if expr.dtype != "handle" and is_float(expr.dtype) else "int"
    match expr:
        case n.Add() | n.Sub():
            yield f"{kind}_addsub"
        case n.Mul() | n.Div(b=n.FloatImm()):  # a division by a constant is made a product
            yield f"{kind}_mul"
        case n.Div() | n.Mod() | n.FloorDiv() | n.FloorMod():
            yield f"{kind}_divmod"
        case n.Min() | n.Max() | n.CmpOp():
            yield f"{kind}_cmp"
        case n.Not(a=n.CmpOp()):  # the opposite comparison
            return
        case n.And() | n.Or() | n.Not():
            yield "bool"
        case n.Select():
            yield "select"
        case n.Call():
            yield f"{kind}_math" if isinstance(expr.op, Op) and expr.op.pure else f"{kind}_other"
