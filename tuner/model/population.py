"""Populations of candidates as arrays: extents of loops, tiles, and the bytes that caches move.

The footprint of an affine access in a tile is the product of what the tile's loops cover of its dimensions. Where the
tiles of a loop fit a cache, what they touch is loaded once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.tir import nodes as n
from tuner.model.machine import LINE_BYTES, MachineModel
from tuner.model.nest import Nest, NestAccess, NestLoop
from tuner.model.types import Floats, Ints

WAYS = 16
"""Lines of a second-level cache that have the same low bits of their addresses."""


class Population:
    """The extents of all loops of all candidates, and derived values. Arrays are of (candidates,)."""

    def __init__(self, nest: Nest, machine: MachineModel, points: Ints) -> None:
        self.nest, self.machine, self.count = nest, machine, len(points)
        through = [access.kept for access in nest.accesses]
        extents = nest.extents(points)
        self.last = nest.last_shares(points, extents)
        self.part = {p.var: extents[p.var].astype(float) for loop in nest.loops for p in loop.parts}
        self.extent = [self.product([self.part[p.var] for p in loop.parts]) for loop in nest.loops]
        self.outer = [self.product(self.extent[:depth]) for depth in range(len(nest.loops) + 1)]
        self.tiles = [self._tile(depth) for depth in range(len(nest.loops) + 1)]
        self.footprints = [
            [self._footprint(access, tile) for access in through] for tile in self.tiles
        ]  # by depth, then by access, in bytes
        self.working = [np.sum(of, axis=0) for of in self.footprints]

    def all(self, value: float) -> Floats:
        """`value` for every candidate."""
        return np.full(self.count, float(value))

    def product(self, factors: Sequence[Floats]) -> Floats:
        """The product for each candidate; 1 without factors."""
        made = np.ones(self.count)
        for factor in factors:
            made = made * factor
        return made

    def _tile(self, depth: int) -> list[Floats]:
        """Return what the loops inside `depth` cover of each axis, at most its extent."""
        tile = [np.ones(self.count) for _ in self.nest.axes]
        for loop in self.nest.loops[depth:]:
            for part in loop.parts:
                if part.axis is not None:
                    tile[part.axis] = tile[part.axis] * self.part[part.var]
        return [np.minimum(t, axis.extent) for t, axis in zip(tile, self.nest.axes)]

    def _footprint(self, access: NestAccess, tile: Sequence[Floats]) -> Floats:
        """Bytes of the buffer that a tile touches, in whole cache lines.
        The last dimensions that it has whole are one piece, as in filters of 1×1 and rows of an image. If vectors
        are shorter than lines, each row of the last dimension counts as lines of its own, as when the draft's
        numbers for such machines were chosen."""
        sizes = self.spans(access, tile)
        if not sizes:
            return self.all(LINE_BYTES)
        if self.machine.wide:
            pieces = self.pieces(access, tile)
            piece = self.product(sizes) / pieces
            return pieces * np.ceil(piece * access.item_bytes / LINE_BYTES) * LINE_BYTES
        line = np.ceil(sizes[-1] * access.item_bytes / LINE_BYTES) * LINE_BYTES
        return self.product([*sizes[:-1], line])

    def spans(self, access: NestAccess, tile: Sequence[Floats]) -> list[Floats]:
        """How much of each of the buffer's dimensions a tile touches."""
        spans = []
        for dim in access.dims:
            span = np.ones(self.count)
            for axis, stride in dim.axes:
                span = span + np.maximum(0.0, stride * tile[axis] - max(stride, 1.0))
            spans.append(np.minimum(span, dim.extent))
        return spans

    @property
    def points(self) -> float:
        """Iterations of the block."""
        return float(np.prod([axis.extent for axis in self.nest.axes]))

    @property
    def ops(self) -> float:
        """Operations of the block."""
        return self.points * self.nest.ops

    def kinds(self, *kinds: n.ForKind) -> list[int]:
        """The places of the loops of these kinds, outermost first."""
        return [at for at, loop in enumerate(self.nest.loops) if loop.kind in kinds]

    def reduces(self, loop: NestLoop) -> bool:
        """Whether a part of `loop` belongs to a reduced axis."""
        return any(p.axis is not None and self.nest.axes[p.axis].reduce for p in loop.parts)

    def pieces(self, access: NestAccess, tile: Sequence[Floats]) -> Floats:
        """How many contiguous pieces of the buffer a tile touches."""
        pieces, whole = np.ones(self.count), np.ones(self.count, bool)
        for span, dim in zip(reversed(self.spans(access, tile)), reversed(access.dims)):
            pieces = np.where(whole, 1.0, pieces * span)
            whole = whole & (span >= dim.extent)
        return pieces

    def pushed_out(self) -> Floats:
        """Return the bytes for an operation that the second-level cache loads again because its sets are full.
        Its contents take less than `l2_bytes`."""
        size = self.machine.l2_held
        inside = max(self.kinds(n.ForKind.PARALLEL), default=-1) + 1
        following = self.all(0.0)
        for number, access in enumerate(self.nest.accesses):
            following = following + (self.footprints[inside][number] if access.fetched else 0.0)
        moved, held = self.all(0.0), self.all(0.0)
        for depth, working in enumerate(self.working):
            share = np.maximum(held, _held((working + following) / size))
            moved, held = moved + (share - held) * self._moved(depth), share
        moved = moved + (1.0 - held) * self._moved(len(self.nest.loops))
        return np.maximum(0.0, moved / self.ops - self.traffic(self.machine.l2_bytes))

    def traffic(self, size: int) -> Floats:
        """Bytes for an operation from beyond a cache of `size` bytes.
        The outermost tile that fits is loaded anew each time, except what the loop around it leaves in place."""
        moved = self._moved(len(self.nest.loops))
        fits = np.ones(self.count, bool)
        for depth in range(len(self.nest.loops), -1, -1):
            fits = fits & (self.working[depth] <= size)
            moved = np.where(fits, self._moved(depth), moved)
        return moved / self.ops

    def _moved(self, depth: int) -> Floats:
        """Bytes loaded and stored if everything that the tile at `depth` touches is loaded anew for each tile.
        What the tile before had, in the loop around it, is not loaded again: the whole of an operand, or a line that
        both touch."""
        total = np.zeros(self.count)
        for number, access in enumerate(self.nest.accesses):
            moved = self.outer[depth] * self.footprints[depth][number]
            if depth:
                around = self.nest.loops[depth - 1]
                if not _touches(access, around):
                    moved = moved / self.extent[depth - 1]
                elif len(around.parts) == 1:
                    moved = np.minimum(moved, self.outer[depth - 1] * self.footprints[depth - 1][number])
            total = total + moved * (2 if access.written else 1)
        return total


def _held(share: Floats) -> Floats:
    """The part of a working set that stays in a cache of which it takes `share`.
    Pages lie anywhere, so a set of lines is used by a Poisson number of them. A set with more lines than ways loads
    all of them again in each turn (R. E. Kessler and M. D. Hill, "Page Placement Algorithms for Large Real-Indexed
    Caches", ACM TOCS 10(4), 1992)."""
    expected = np.minimum(share, 2.0) * WAYS
    term = np.exp(-expected)
    total = term
    for others in range(1, WAYS):
        term = term * expected / others
        total = total + term
    held: Floats = np.where(share <= 1.0, total, 0.0)
    return held


def _touches(access: NestAccess, loop: NestLoop) -> bool:
    axes = {axis for dim in access.dims for axis, _ in dim.axes}
    return any(part.axis is None or part.axis in axes for part in loop.parts)
