"""Columns of a local block of rows, which is transposed in registers once for all of them.

A tile with channels along vectors is written along the rows of an image. Each of 16 columns is a vector then, which
lane by lane would take an instruction for each element. Pairs of rows are interleaved, then pairs of pairs, then
quarters of vectors:

    rows   →   2 rows × 4 columns a quarter   →   4 rows × 1 column a quarter   →   columns

16 rows take 64 shuffles, 8 rows 32. Rows that are not there cost little: LLVM drops what nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.codegen.llvm.gen import Gen, KernelStorage
from compiler.codegen.llvm.index import resolve
from compiler.codegen.llvm.types import element_bytes, memory_type
from compiler.dtype import element_of, with_lanes
from compiler.tir import nodes as n
from compiler.tir import ops

LANES = 16  # of a row
_QUARTER = 4
_LEAST_ROWS = 2

Read = Callable[[str], str]
"""Emit a load by its right-hand side; an equal earlier one is used again."""


@dataclass(frozen=True, slots=True)
class BlockColumn:
    """One of 16 columns of `rows` vectors, `stride` elements apart, the first of which starts at `base`.
    It is a vector of `lanes`, of which the first have the rows' elements."""

    base: n.PrimExpr
    column: int
    rows: int
    stride: int
    lanes: int

    def key(self, column: int, start: str) -> str:
        return f"column {column} of {self.rows} by {self.stride} at {start} in {self.lanes}"


def column_of(g: Gen, memory: KernelStorage, position: n.Ramp, dtype: str, count: int) -> BlockColumn | None:
    """Return the column of which a strided load reads the first `count` lanes.
    None outside loops that say so, on other machines, and where rows are no whole vectors of private memory."""
    stride = position.stride
    if not g.transposes or "avx512f" not in g.module.options.features or g.module.options.device is not None:
        return None
    if element_of(dtype) != "float32" or not memory.private or memory.elements is None:
        return None
    if not isinstance(stride, n.IntImm) or stride.value < LANES or stride.value % LANES:
        return None
    if not (_LEAST_ROWS <= count <= position.lanes <= LANES and count > position.lanes // 2):
        return None
    terms, offset = resolve(g, g.forms.form(position.base))
    if any(scale % LANES for _, _, scale in terms):
        return None
    column = offset % LANES
    low, high = g.forms.bounds(position.base) if terms else (offset, offset)
    end = high - high % LANES + (count - 1) * stride.value + LANES
    if low < 0 or end > memory.elements:
        return None
    base = n.Sub(position.base, ops.const(column, position.base.dtype))
    return BlockColumn(base, column, count, stride.value, position.lanes)


def load_column(g: Gen, found: BlockColumn, start: str, align: int, read: Read, seen: dict[str, str]) -> str:
    """Return the lanes of a column.
    `start` is the address of its block, `seen` holds the columns made since the block changed."""
    key = found.key(found.column, start)
    if key not in seen:
        row = memory_type(with_lanes("float32", LANES))
        rows = []
        for at in range(found.rows):
            offset = at * found.stride * element_bytes("float32")
            pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {offset}", start) if offset else start
            rows.append(read(f"load {row}, ptr {pointer}, align {align}"))
        seen |= {found.key(c, start): value for c, value in enumerate(_transposed(g, rows, found.lanes))}
    return seen[key]


def _transposed(g: Gen, rows: Sequence[str], lanes: int) -> list[str]:
    """The 16 columns of some rows, each as the first of `lanes`."""
    height = max(_QUARTER, lanes)
    filled = [*rows, *["poison"] * (height - len(rows))]
    fours = [_fours(g, filled[at : at + _QUARTER]) for at in range(0, height, _QUARTER)]
    columns = [""] * LANES
    for j in range(_QUARTER):
        parts = [four[j] for four in fours]
        for at, (value, first) in enumerate(_stacked(g, parts)):
            columns[_QUARTER * at + j] = _shuffle(g, value, "poison", [first + i for i in range(lanes)])
    return columns


def _fours(g: Gen, rows: Sequence[str]) -> list[str]:
    """Return four vectors of four rows. Quarter k of vector j is column 4 k + j."""
    a, b, c, d = rows
    low, high = [0, 16, 1, 17], [2, 18, 3, 19]
    pairs = [[_shuffle(g, x, y, _in_quarters(picks)) for picks in (low, high)] for x, y in ((a, b), (c, d))]
    whole = []
    for first, second in zip(*pairs):
        whole += [_shuffle(g, first, second, _in_quarters(picks)) for picks in ([0, 1, 16, 17], [2, 3, 18, 19])]
    return whole


def _in_quarters(picks: Sequence[int]) -> list[int]:
    return [_QUARTER * quarter + pick for quarter in range(LANES // _QUARTER) for pick in picks]


def _stacked(g: Gen, parts: Sequence[str]) -> list[tuple[str, int]]:
    """Put together the quarters of the vectors `parts` that are at the same place.
    Returns for each place a vector that holds them one after the other, and the first of its lanes."""
    if len(parts) == 1:
        return [(parts[0], _QUARTER * quarter) for quarter in range(4)]
    if len(parts) == 2:
        left, right = parts
        made = [_shuffle(g, left, right, _quarters([k, 4 + k, k + 1, 5 + k])) for k in (0, 2)]
        return [(value, first) for value in made for first in (0, 2 * _QUARTER)]
    a, b, c, d = parts
    even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
    halves = [[_shuffle(g, x, y, _quarters(picks)) for x, y in ((a, b), (c, d))] for picks in (even, odd)]
    return [(_shuffle(g, halves[k % 2][0], halves[k % 2][1], _quarters((even, odd)[k // 2])), 0) for k in range(4)]


def _quarters(picks: Sequence[int]) -> list[int]:
    return [_QUARTER * pick + i for pick in picks for i in range(_QUARTER)]


def _shuffle(g: Gen, a: str, b: str, lanes: Sequence[int]) -> str:
    if b == "poison" and list(lanes) == list(range(LANES)):
        return a
    ty, order = f"<{LANES} x float>", ", ".join(f"i32 {lane}" for lane in lanes)
    return g.w.value(f"shufflevector {ty} {a}, {ty} {b}, <{len(lanes)} x i32> <{order}>", a, b)
