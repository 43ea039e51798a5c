"""The loop nest that all candidates of a sketch share, with extents that depend on their decisions.

It has the loops around the block with most of the work, the axes that they run along, and the block's accesses. The
splits and fusions that made a loop tell how its extent follows from the decisions. So a whole population's extents
are a few array operations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from compiler.tir import nodes as n
from tuner.model.types import Floats, Ints

Factor = int | tuple[int, int] | None
"""A split's factor: a constant, output `[1]` of sampling step `[0]`, or whatever is left."""


@dataclass(frozen=True)
class LoopSplit:
    parent: n.Var
    factors: tuple[Factor, ...]
    parts: tuple[n.Var, ...]


@dataclass(frozen=True)
class FusedLoops:
    parts: tuple[n.Var, ...]
    whole: n.Var


@dataclass(frozen=True)
class LoopPart:
    """A loop before fusion: the block axis it runs along, None where that is not known."""

    var: n.Var
    axis: int | None


@dataclass(frozen=True)
class NestLoop:
    parts: tuple[LoopPart, ...]
    kind: n.ForKind


@dataclass(frozen=True)
class NestAxis:
    extent: int
    reduce: bool


@dataclass(frozen=True)
class Dim:
    """A dimension of a buffer: the axes in its index, each with its stride, and the buffer's extent there.
    An index of tiles, as packed operands have it, moves on by part of one: `j // 16` by 1/16."""

    axes: tuple[tuple[int, float], ...]
    extent: int


@dataclass(frozen=True)
class NestAccess:
    """An access in a nest, as the caches see it.
    `filled_at`: how many loops of the nest also surround the block that fills this buffer; None for an argument.
    `turned`: at each call, its neighbours come from rows of the argument that lie apart. `handed`: at each call, it
    is filled whole before the nest. `ahead`: it is filled once, before all calls. `fetched`: while a task reads its
    part, the next task's is fetched. `summed`: dimensions of the written buffer that are added up before the next
    tile."""

    dims: tuple[Dim, ...]
    item_bytes: int
    written: bool
    filled_at: int | None
    turned: bool = False
    summed: frozenset[int] = frozenset()
    handed: bool = False
    fetched: bool = False
    ahead: bool = False

    @property
    def kept(self) -> NestAccess:
        """Return the access without dimensions that are added up before the next tile.
        It is what goes through the caches."""
        return replace(self, dims=tuple(dim for at, dim in enumerate(self.dims) if at not in self.summed))


@dataclass(frozen=True)
class Nest:
    """`ops`: operations of one iteration of the block.
    `tables[i]`: what each decision of the i-th sampling step makes of its outputs, a row a decision. `steps`: how
    often the trace has each primitive. `blocks`: in all the function. `writes_result`: whether a tile, when it is
    summed, is written to an argument."""

    loops: tuple[NestLoop, ...]
    axes: tuple[NestAxis, ...]
    accesses: tuple[NestAccess, ...]
    ops: int
    dtype: str
    lineage: tuple[LoopSplit | FusedLoops, ...]
    constants: dict[n.Var, int]
    tables: tuple[Ints, ...]
    steps: dict[str, int]
    blocks: int
    writes_result: bool

    def extents(self, points: Ints) -> dict[n.Var, Ints]:
        """The extent of every loop for each of the points, an array of (points, decisions)."""
        count = len(points)
        known = {var: np.full(count, extent) for var, extent in self.constants.items()}
        for made in self.lineage:
            match made:
                case LoopSplit(parent, factors, parts):
                    sizes = [self._factor(f, points) for f in factors]
                    given = np.prod([np.ones(count, np.int64), *(s for s in sizes if s is not None)], axis=0)
                    left = -(-known[parent] // given)
                    known |= {var: left if size is None else size for var, size in zip(parts, sizes)}
                case FusedLoops(parts, whole):
                    known[whole] = np.prod([known[p] for p in parts], axis=0)
        return known

    def last_shares(self, points: Ints, extents: dict[n.Var, Ints]) -> dict[n.Var, Floats]:
        """Return how much of an iteration the last one is, in loops over a split's remainder.
        784 by 512 leave two iterations, of which the last is about a half. `extents` are those of the same points."""
        shares = {}
        for made in self.lineage:
            if isinstance(made, LoopSplit) and made.factors[0] is None:
                sizes = [self._factor(f, points) for f in made.factors[1:]]
                given = np.prod([np.ones(len(points), np.int64), *(s for s in sizes if s is not None)], axis=0)
                whole = (extents[made.parts[0]] - 1) * given
                shares[made.parts[0]] = (extents[made.parent] - whole) / given
        return shares

    def _factor(self, factor: Factor, points: Ints) -> Ints | None:
        match factor:
            case None:
                return None
            case int():
                return np.full(len(points), factor)
            case step, output:
                column: Ints = self.tables[step][points[:, step], output]
                return column
