"""Copy tiles of an operand to shared memory, in a kernel of warps.

A tile lies there in chunks of 16 bytes whose place in a row depends on the row. The eight rows of a matrix that
`ldmatrix` reads at once are then in different banks, without padding between rows. Rows run along k if neighbours
along k are neighbours in memory, or if nothing else helps. Otherwise they run along the operand's own axis, and
`ldmatrix` transposes.

Copies are asynchronous where memory allows pieces of 4 bytes or more. Elsewhere a thread gathers a chunk in
registers, element by element, while the step before is computed, and stores it whole. That is so for rows at odd
addresses, the shifted windows of an image, and bytes that must be transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.lower.analysis.conditions import conjunction, is_true
from compiler.tensorcore.warp_form import CHUNK_BYTES, Group, WarpOperand, flat, size_of
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import ptx as ptx
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import substitute


def axes_at(group: Group, number: PrimExpr) -> dict[n.Var, PrimExpr]:
    """The axes of a group where their fused index is `number`."""
    found: dict[n.Var, PrimExpr] = {}
    for axis in reversed(group[1:]):
        found[axis.var] = ops.floormod(number, axis.extent)
        number = ops.floordiv(number, axis.extent)
    for axis in group[:1]:
        found[axis.var] = number
    return found


def place(stage: PrimExpr, shape: tuple[int, int], row: PrimExpr, chunk: PrimExpr, size: int) -> PrimExpr:
    """Return where a chunk of `size` elements of a tile's row starts in shared memory.
    Chunks of neighbouring rows change places."""
    rows, width = shape
    chunks = width // size
    turns = min(chunks & -chunks, 8)  # a power of two that divides them; eight chunks span all banks
    turn = ops.floormod(ops.floordiv(row, 8 // turns), turns)
    return (stage * rows + row) * width + (chunk ^ turn) * size


@dataclass(frozen=True)
class WarpFetch:
    """Writes how all threads fill a stage.
    `tile` is its size along the operand's own axis and along k. `own` and `depth` are those axes, and `batch` the
    others. `thread` is the thread's number among `threads`."""

    operand: WarpOperand
    own: Group
    depth: Group
    batch: Mapping[n.Var, PrimExpr]
    tile: tuple[int, int]
    stages: int
    thread: PrimExpr
    threads: int
    shared: n.Buffer = field(init=False)
    fetched: n.Buffer | None = field(init=False)  # registers of what is gathered

    def __post_init__(self) -> None:
        name, dtype = self.operand.buffer.name, self.operand.buffer.dtype
        count = self.tile[0] * self.tile[1]
        shared = n.decl_buffer((self.stages * count,), dtype, f"{name}_shared", scope="shared")
        own = n.decl_buffer((count // self.threads,), dtype, f"{name}_fetched", scope="local")
        object.__setattr__(self, "shared", shared)
        object.__setattr__(self, "fetched", own if self.operand.lanes == 1 else None)

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes."""
        return CHUNK_BYTES // self.operand.bytes

    @property
    def transposed(self) -> bool:
        """Whether rows of shared memory run along the operand's own axis."""
        return self.fetched is None and not self.operand.along_k

    @property
    def shape(self) -> tuple[int, int]:
        return (self.tile[1], self.tile[0]) if self.transposed else self.tile

    def at(self, stage: PrimExpr, row: PrimExpr, chunk: PrimExpr) -> PrimExpr:
        return place(stage, self.shape, row, chunk, self.chunk)

    def begin(self, stage: PrimExpr, first: PrimExpr, step: PrimExpr) -> list[Stmt]:
        """Begin to fetch the tile from `first` on, at step `step` along k, for a stage."""
        return self._copies(stage, first, step) if self.fetched is None else self._gather(first, step)

    def finish(self, stage: PrimExpr) -> list[Stmt]:
        """Put what was gathered into the stage."""
        if self.fetched is None:
            return []
        found: list[Stmt] = []
        for turn in range(self._turns(self.chunk)):
            start = ops.const(turn * self.chunk)
            value = n.BufferLoad(self.fetched, (n.Ramp(start, ops.const(1), self.chunk),))
            target = n.Ramp(self.at(stage, *self._gathered(turn)), ops.const(1), self.chunk)
            found.append(n.BufferStore(self.shared, value, (target,)))
        return found

    def _turns(self, lanes: int) -> int:
        return self.tile[0] * self.tile[1] // lanes // self.threads

    def _copies(self, stage: PrimExpr, first: PrimExpr, step: PrimExpr) -> list[Stmt]:
        lanes, width = self.operand.lanes, self.shape[1]
        found: list[Stmt] = []
        for turn in range(self._turns(lanes)):
            number = self.thread + turn * self.threads
            row, piece = ops.floordiv(number, width // lanes), ops.floormod(number, width // lanes)
            start = piece * lanes
            own, k = (start, row) if self.transposed else (row, start)
            index, valid = self._element(first + own, step * self.tile[1] + k)
            to = self.at(stage, row, ops.floordiv(start, self.chunk)) + ops.floormod(start, self.chunk)
            copy = ptx.ptx_cp_async(
                self.shared.dtype, self.shared.data, to, self.operand.buffer.data, index, lanes * self.operand.bytes,
                None if is_true(valid) else valid,
            )  # fmt: skip
            found.append(n.Evaluate(copy))
        return found

    def _gathered(self, turn: int) -> tuple[PrimExpr, PrimExpr]:
        """The row and chunk that a thread gathers. Neighbouring threads take neighbours in memory."""
        number = self.thread + turn * self.threads
        rows, chunks = self.tile[0], self.tile[1] // self.chunk
        if self.operand.along_k:
            return ops.floordiv(number, chunks), ops.floormod(number, chunks)
        return ops.floormod(number, rows), ops.floordiv(number, rows)

    def _gather(self, first: PrimExpr, step: PrimExpr) -> list[Stmt]:
        assert self.fetched is not None
        found: list[Stmt] = []
        for turn in range(self._turns(self.chunk)):
            row, chunk = self._gathered(turn)
            for e in range(self.chunk):
                index, valid = self._element(first + row, step * self.tile[1] + chunk * self.chunk + e)
                found.append(
                    n.BufferStore(self.fetched, self._or_zero(index, valid), (ops.const(turn * self.chunk + e),))
                )
        return found

    def _or_zero(self, index: PrimExpr, valid: PrimExpr) -> PrimExpr:
        """An element, or 0 where it is not valid.
        It takes no branch: an invalid one reads the first element instead."""
        source = flat(self.operand.buffer)
        if is_true(valid):
            return n.BufferLoad(source, (index,))
        read = n.BufferLoad(source, (n.Select(valid, index, ops.const(0)),))
        return n.Select(valid, read, ops.const(0, source.dtype))

    def _element(self, own: PrimExpr, k: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """(where an element is, whether it is one and not 0 instead)."""
        values = {**self.batch, **axes_at(self.own, own), **axes_at(self.depth, k)}
        inside = [
            ops.less(number, size_of(group))
            for number, group, tile in ((own, self.own, self.tile[0]), (k, self.depth, self.tile[1]))
            if size_of(group) % tile
        ]
        valid = conjunction([*inside, *(substitute(part, values) for part in self.operand.valid)])
        return substitute(self.operand.index, values), valid
