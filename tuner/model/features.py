"""Features of whole populations, from decision vectors alone.

No candidate is scheduled, lowered or built.

The loop nest of a sketch is known (`tuner.model.nest`), so a population is an array of extents. From these follow
the register tile, how well tails and threads are filled, and how much is copied. The bytes that each cache level has
to move follow from the footprints of the affine accesses in the tile that fits it. All sizes are logarithms to base
2. Features mean the same for every workload, so a model can be trained on some and asked about others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.model.draft import Waits, draft, late
from tuner.model.machine import LINE_BYTES, MachineModel
from tuner.model.nest import Nest, NestAccess, NestLoop
from tuner.model.read_nest import nest_of
from tuner.model.types import Floats, Ints
from tuner.space.cpu.balance import balance
from tuner.space.sketch import Sketch

FEATURE_VERSION = 6
"""Models are of one version: raised whenever NAMES or what one of them means changes."""

NAMES = (
    # the workload
    "ops", "bytes", "intensity", "spatial", "reduced",
    # the register tile and the body of the innermost loop
    "lanes", "lane_fill", "tile_vectors", "tile_rows", "registers", "spills", "unrolled", "unrolled_reduce",
    "loads_per_op", "contiguous", "broadcast", "strided", "store_contiguous", "inner_trip", "loop_steps",
    "reduce_inside", "runs",
    # what does not divide
    "fill", "vector_fill",
    # the memory hierarchy: bytes an operation
    "l1_traffic", "l2_traffic", "l3_traffic", "task_bytes", "task_bytes_l1", "task_bytes_l2", "copied", "copied_bytes",
    "copied_singly",
    # threads
    "tasks", "tasks_a_thread", "balance", "task_ops",
    # the sketch
    "caches_read", "caches_written", "factored", "tensorized", "blocks",
    # what all of them come to
    "draft",
)  # fmt: skip


_SECOND = 3.0  # loads of a vector of every second element: two, and a shuffle of them
_SHUFFLED_BYTES = 4  # of elements that are loaded so; smaller ones are gathered
_WAYS = 16  # lines of a second-level cache that have the same low bits of their addresses


@dataclass(frozen=True)
class SketchFeatures:
    """Computes the features of candidates of one sketch.
    Made once per sketch: it replays the sketch's trace."""

    nest: Nest
    machine: MachineModel

    @staticmethod
    def of(sketch: Sketch, func: n.PrimFunc, target: Target, example: Sequence[int] | None = None) -> SketchFeatures:
        """`example`: an allowed point (default: one is looked for).
        Raises FeatureError when the sketch cannot be described."""
        wide = MachineModel.of(target, "float32").wide
        nest = nest_of(sketch, func, example, wide)
        return SketchFeatures(nest, MachineModel.of(target, nest.dtype))

    def matrix(self, points: Sequence[Sequence[int]] | Ints) -> Floats:
        """An array of (points, len(NAMES)) for decision vectors of shape (points, decisions)."""
        return self.described(points)[0]

    def described(self, points: Sequence[Sequence[int]] | Ints) -> tuple[Floats, Floats]:
        """Return the matrix, and corrections of a speed score for some waits.
        The features that models were trained with do not hold those. No measurement shows them for results that stay
        in no cache, because it writes to the same memory again and again."""
        where = np.asarray(points, np.int64).reshape(len(points), len(self.nest.tables))
        population = _Population(self.nest, self.machine, where)
        columns = population.columns()
        columns["draft"] = draft(columns, self.nest, self.machine)
        matrix = np.stack([columns[name] for name in NAMES], axis=1)
        waits = Waits(population.pieces_written(), population.handed_over(), population.pushed_out())
        return matrix, late(columns["draft"], waits, columns["balance"] * self.machine.threads)


def _log(values: Floats | Ints | float) -> Floats:
    return np.log2(np.maximum(values, 1e-9))


class _Population:
    """The extents of all loops of all candidates, and derived values. Arrays are of (candidates,)."""

    def __init__(self, nest: Nest, machine: MachineModel, points: Ints) -> None:
        self.nest, self.machine, self.count = nest, machine, len(points)
        through = [access.kept for access in nest.accesses]
        extents = nest.extents(points)
        self.last = nest.last_shares(points, extents)
        self.part = {p.var: extents[p.var].astype(float) for loop in nest.loops for p in loop.parts}
        self.extent = [self._product([self.part[p.var] for p in loop.parts]) for loop in nest.loops]
        self.outer = [self._product(self.extent[:depth]) for depth in range(len(nest.loops) + 1)]
        self.tiles = [self._tile(depth) for depth in range(len(nest.loops) + 1)]
        self.footprints = [
            [self._footprint(access, tile) for access in through] for tile in self.tiles
        ]  # by depth, then by access, in bytes
        self.working = [np.sum(of, axis=0) for of in self.footprints]

    def columns(self) -> dict[str, Floats]:
        columns = {**self._workload(), **self._body(), **self._tails(), **self._memory(), **self._threads()}
        steps = self.nest.steps
        columns |= {
            "caches_read": self._all(steps.get("cache_read", 0)),
            "caches_written": self._all(steps.get("cache_write", 0)),
            "factored": self._all(steps.get("rfactor", 0)),
            "tensorized": self._all(steps.get("tensorize", 0)),
            "blocks": self._all(self.nest.blocks),
        }
        return columns

    # -- helpers

    def _all(self, value: float) -> Floats:
        return np.full(self.count, float(value))

    def _product(self, factors: Sequence[Floats]) -> Floats:
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
        sizes = self._spans(access, tile)
        if not sizes:
            return self._all(LINE_BYTES)
        if self.machine.wide:
            pieces = self._pieces(access, tile)
            piece = self._product(sizes) / pieces
            return pieces * np.ceil(piece * access.item_bytes / LINE_BYTES) * LINE_BYTES
        line = np.ceil(sizes[-1] * access.item_bytes / LINE_BYTES) * LINE_BYTES
        return self._product([*sizes[:-1], line])

    def _spans(self, access: NestAccess, tile: Sequence[Floats]) -> list[Floats]:
        """How much of each of the buffer's dimensions a tile touches."""
        spans = []
        for dim in access.dims:
            span = np.ones(self.count)
            for axis, stride in dim.axes:
                span = span + np.maximum(0.0, stride * tile[axis] - max(stride, 1.0))
            spans.append(np.minimum(span, dim.extent))
        return spans

    @property
    def _points(self) -> float:
        return float(np.prod([axis.extent for axis in self.nest.axes]))

    @property
    def _ops(self) -> float:
        return self._points * self.nest.ops

    def _kinds(self, *kinds: n.ForKind) -> list[int]:
        return [at for at, loop in enumerate(self.nest.loops) if loop.kind in kinds]

    def _reduces(self, loop: NestLoop) -> bool:
        return any(p.axis is not None and self.nest.axes[p.axis].reduce for p in loop.parts)

    # -- groups of features

    def _workload(self) -> dict[str, Floats]:
        size = float(sum(np.prod([d.extent for d in a.dims]) * a.item_bytes for a in self.nest.accesses))
        spatial = float(np.prod([a.extent for a in self.nest.axes if not a.reduce]))
        return {
            "ops": self._all(np.log2(self._ops)),
            "bytes": self._all(np.log2(size)),
            "intensity": self._all(np.log2(self._ops / size)),
            "spatial": self._all(np.log2(spatial)),
            "reduced": self._all(np.log2(self._points / spatial)),
        }

    def _body(self) -> dict[str, Floats]:
        """The loops at the inner end that are unrolled or vectors: one straight piece of code."""
        loops = self.nest.loops
        start = len(loops)
        while start and loops[start - 1].kind in (n.ForKind.UNROLLED, n.ForKind.VECTORIZED):
            start -= 1
        spatial = [at for at in range(start, len(loops)) if not self._reduces(loops[at])]
        vector = [at for at in spatial if loops[at].kind is n.ForKind.VECTORIZED]
        lanes = self._product([self.extent[at] for at in vector])
        repeats = self._product([self.extent[at] for at in spatial if at not in vector])
        vectors = np.ceil(lanes / self.machine.lanes) * repeats
        along = {p.axis for at in vector for p in loops[at].parts}
        rows = self._product([self.extent[at] for at in spatial if not along & {p.axis for p in loops[at].parts}])
        reduce = self._product([self.extent[at] for at in range(start, len(loops)) if self._reduces(loops[at])])
        needed = vectors + np.maximum(1.0, vectors / np.maximum(rows, 1.0)) + 1
        serial = [at for at in range(start) if loops[at].kind is n.ForKind.SERIAL]
        return {
            "lanes": _log(lanes),
            "lane_fill": lanes / (np.ceil(lanes / self.machine.lanes) * self.machine.lanes),
            "tile_vectors": _log(vectors),
            "tile_rows": _log(rows),
            "registers": needed / self.machine.registers,
            "spills": (needed > self.machine.registers).astype(float),
            "unrolled": _log(vectors * reduce),
            "unrolled_reduce": _log(reduce),
            **self._operands(start, along, vectors * reduce),
            "inner_trip": _log(self.extent[serial[-1]]) if serial else self._all(0.0),
            "loop_steps": _log(self.outer[start] / self._points),
            "reduce_inside": _log(self._reduce_inside(start)),
            "runs": _log(self._runs(self._sum_start(start), along)),
            **self._in_place(self._sum_start(start), along),
        }

    def _operands(self, start: int, along: set[int | None], steps: Floats) -> dict[str, Floats]:
        """How the body's operands are loaded: along vectors, one value for all lanes, or gathered.
        Vectors of every second element count as those along them, but for the loads they take."""
        loads, kinds = self._all(0.0), {"contiguous": 0, "broadcast": 0, "strided": 0}
        for access in self.nest.accesses:
            kind = _walk_of(access, along)
            if access.written:
                stored = float(kind == "contiguous")
                continue
            each = {"contiguous": 1.0, "second": _SECOND}.get(kind)
            kinds["contiguous" if kind == "second" else kind] += 1
            touched = np.ones(self.count)
            for axis in {axis for dim in access.dims for axis, _ in dim.axes}:
                touched = touched * self.tiles[start][axis]
            loads = loads + (touched if each is None else each * touched / self.machine.lanes)
        return {
            "loads_per_op": _log(loads / steps),
            "store_contiguous": self._all(stored),
            **{kind: self._all(count) for kind, count in kinds.items()},
        }

    def _sum_start(self, start: int) -> int:
        """The first of the loops between loading and storing an accumulator."""
        first = start
        while first and self._reduces(self.nest.loops[first - 1]):
            first -= 1
        return first

    def _reduce_inside(self, start: int) -> Floats:
        """Steps of the reduction between loading and storing an accumulator."""
        loops = range(self._sum_start(start), len(self.nest.loops))
        return self._product([self.extent[at] for at in loops if self._reduces(self.nest.loops[at])])

    def _runs(self, start: int, along: set[int | None]) -> Floats:
        """How many separate pieces of an operand along vectors one register tile's sums read.
        It is one if it was copied for that, and a row for each step if it is read in place."""
        most = np.ones(self.count)
        for access in self._read_in_place(along):
            most = np.maximum(most, self._pieces(access, self.tiles[start]))
        return most

    def _read_in_place(self, along: set[int | None]) -> list[NestAccess]:
        """The operands that are loaded along vectors from where the caller has them."""
        given = [access for access in self.nest.accesses if not access.written and access.filled_at is None]
        return [access for access in given if _walk_of(access, along) == "contiguous"]

    def _in_place(self, start: int, along: set[int | None]) -> dict[str, Floats]:
        """Return further properties of such operands.
        "crowded" is a logarithm: how many times more runs, rows a power of two apart, there are than lines fit in
        the second-level cache. "ragged": whether rows begin inside of lines, so that vectors cross them."""
        crowded, ragged = np.ones(self.count), 0.0
        way = self.machine.l2_bytes // _WAYS
        for access in self._read_in_place(along):
            if len(access.dims) > 1:
                row = _row(access, along) * access.item_bytes
                room = _WAYS * way // math.gcd(row, way)
                crowded = np.maximum(crowded, self._pieces(access, self.tiles[start]) / room)
                ragged = max(ragged, float(row % LINE_BYTES != 0))
        return {"crowded": _log(crowded), "ragged": self._all(ragged)}

    def _pieces(self, access: NestAccess, tile: Sequence[Floats]) -> Floats:
        """How many contiguous pieces of the buffer a tile touches."""
        pieces, whole = np.ones(self.count), np.ones(self.count, bool)
        for span, dim in zip(reversed(self._spans(access, tile)), reversed(access.dims)):
            pieces = np.where(whole, 1.0, pieces * span)
            whole = whole & (span >= dim.extent)
        return pieces

    def pieces_written(self) -> Floats:
        """Return into how many pieces of memory an operation's result is written.
        The first line of each is late. A piece is what tiles of one row write one after another. None if the result
        fits the second-level cache, or if what is computed from it earlier does."""
        [written] = [access.kept for access in self.nest.accesses if access.written]
        size = float(np.prod([dim.extent for dim in written.dims]))
        if not self.nest.writes_result or size * written.item_bytes <= self.machine.l2_bytes:
            return self._all(0.0)
        loops = self.nest.loops
        start = next((at for at, loop in enumerate(loops) if self._reduces(loop)), len(loops))
        rows = self._pieces(written, self.tiles[start])
        piece, goes_on = self._product(self._spans(written, self.tiles[start])) / rows, np.ones(self.count, bool)
        for depth in range(start - 1, -1, -1):
            if loops[depth].kind is n.ForKind.PARALLEL:
                break
            goes_on = goes_on & (self._pieces(written, self.tiles[depth]) == rows)
            longer = self._product(self._spans(written, self.tiles[depth])) / rows
            piece = np.where(goes_on, longer, piece)
        return size / piece / self._ops

    def handed_over(self) -> Floats:
        """Return the bytes for an operation that a thread reads of other threads' writes.
        All threads filled the buffer together before, and each task reads all of it."""
        parallel = self._kinds(n.ForKind.PARALLEL)
        total = np.zeros(self.count)
        for number, access in enumerate(self.nest.accesses):
            if access.handed and parallel:
                task, whole = self.footprints[parallel[-1] + 1][number], self.footprints[0][number]
                total = total + np.where(task < whole, 0.0, whole)
        return total * (self.machine.threads - 1) / self._ops

    def _tails(self) -> dict[str, Floats]:
        fill, vector_fill = np.ones(self.count), np.ones(self.count)
        along = {p.axis for at in self._kinds(n.ForKind.VECTORIZED) for p in self.nest.loops[at].parts}
        for number, axis in enumerate(self.nest.axes):
            covered = self._product(
                [self.part[p.var] for loop in self.nest.loops for p in loop.parts if p.axis == number]
            )
            filled = np.minimum(1.0, axis.extent / covered)
            fill = fill * filled
            vector_fill = vector_fill * filled if number in along else vector_fill
        return {"fill": fill, "vector_fill": vector_fill, "tile_fill": self._tile_fill()}

    def _tile_fill(self) -> Floats:
        """The useful part of the work of all register tiles.
        Tiles of a panel beyond the edge are not computed."""
        filled = np.ones(self.count)
        straight = self._kinds(n.ForKind.UNROLLED, n.ForKind.VECTORIZED)
        for number, axis in enumerate(self.nest.axes):
            tile = self._product(
                [self.part[p.var] for at in straight for p in self.nest.loops[at].parts if p.axis == number]
            )
            filled = filled * axis.extent / (np.ceil(axis.extent / tile) * tile)
        return filled

    def _memory(self) -> dict[str, Floats]:
        machine = self.machine
        parallel = self._kinds(n.ForKind.PARALLEL)
        inside = self.working[parallel[-1] + 1] if parallel else self.working[0]
        copied, singly, turned, copied_bytes = (self._all(0.0) for _ in range(4))
        along = {p.axis for at in self._kinds(n.ForKind.VECTORIZED) for p in self.nest.loops[at].parts}
        for number, access in enumerate(self.nest.accesses):
            if access.filled_at is not None and not access.ahead:
                piece = self.footprints[access.filled_at][number]
                share = piece * self.outer[access.filled_at] / self._ops
                copied, copied_bytes = copied + share, copied_bytes + piece
                if _walk_of(access, along) == "broadcast":
                    singly = singly + share
                elif access.turned:
                    turned = turned + share
        return {
            "l1_traffic": _log(self._traffic(machine.l1_bytes)),
            "l2_traffic": _log(self._traffic(machine.l2_bytes)),
            "l3_traffic": _log(self._traffic(machine.l3_bytes)),
            "task_bytes": _log(inside),
            "task_bytes_l1": (inside <= machine.l1_bytes).astype(float),
            "task_bytes_l2": (inside <= machine.l2_bytes).astype(float),
            "copied": np.log2(1.0 + copied),
            "copied_bytes": np.log2(1.0 + copied_bytes),
            "copied_singly": np.log2(1.0 + singly),
            "turned": turned,
            "added": self._added(),
        }

    def _added(self) -> Floats:
        """Partial sums that are added up one by one, for an operation."""
        [written] = [access for access in self.nest.accesses if access.written]
        if not written.summed:
            return self._all(0.0)
        axes = {axis for at in written.summed for axis, _ in written.dims[at].axes}
        each = self._product([self.part[p.var] for loop in self.nest.loops for p in loop.parts if p.axis in axes])
        return each * float(np.prod([dim.extent for dim in written.kept.dims])) / self._ops

    def pushed_out(self) -> Floats:
        """Return the bytes for an operation that the second-level cache loads again because its sets are full.
        Its contents take less than `l2_bytes`."""
        size = self.machine.l2_held
        inside = max(self._kinds(n.ForKind.PARALLEL), default=-1) + 1
        following = self._all(0.0)
        for number, access in enumerate(self.nest.accesses):
            following = following + (self.footprints[inside][number] if access.fetched else 0.0)
        moved, held = self._all(0.0), self._all(0.0)
        for depth, working in enumerate(self.working):
            share = np.maximum(held, _held((working + following) / size))
            moved, held = moved + (share - held) * self._moved(depth), share
        moved = moved + (1.0 - held) * self._moved(len(self.nest.loops))
        return np.maximum(0.0, moved / self._ops - self._traffic(self.machine.l2_bytes))

    def _traffic(self, size: int) -> Floats:
        """Bytes for an operation from beyond a cache of `size` bytes.
        The outermost tile that fits is loaded anew each time, except what the loop around it leaves in place."""
        moved = self._moved(len(self.nest.loops))
        fits = np.ones(self.count, bool)
        for depth in range(len(self.nest.loops), -1, -1):
            fits = fits & (self.working[depth] <= size)
            moved = np.where(fits, self._moved(depth), moved)
        return moved / self._ops

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

    def _threads(self) -> dict[str, Floats]:
        tasks = self._product([self.extent[at] for at in self._kinds(n.ForKind.PARALLEL)])
        threads = self.machine.threads
        return {
            "tasks": _log(tasks),
            "tasks_a_thread": _log(tasks / threads),
            "balance": self._balance(tasks),
            "task_ops": _log(self._ops / tasks),
        }

    def _balance(self, tasks: Floats) -> Floats:
        """How evenly threads are loaded; the last task along an axis may be smaller than the others."""
        parts = [p.var for at in self._kinds(n.ForKind.PARALLEL) for p in self.nest.loops[at].parts]
        last = [self.last.get(var, self._all(1.0)) for var in parts]
        whole = self._product([self.part[var] - (share < 1.0) for var, share in zip(parts, last)])
        work = self._product([self.part[var] - 1.0 + share for var, share in zip(parts, last)])
        small = tasks - whole
        return balance(whole, small, (work - whole) / np.maximum(small, 1.0), self.machine.threads)


def _held(share: Floats) -> Floats:
    """The part of a working set that stays in a cache of which it takes `share`.
    Pages lie anywhere, so a set of lines is used by a Poisson number of them. A set with more lines than ways loads
    all of them again in each turn (R. E. Kessler and M. D. Hill, "Page Placement Algorithms for Large Real-Indexed
    Caches", ACM TOCS 10(4), 1992)."""
    expected = np.minimum(share, 2.0) * _WAYS
    term = np.exp(-expected)
    total = term
    for others in range(1, _WAYS):
        term = term * expected / others
        total = total + term
    held: Floats = np.where(share <= 1.0, total, 0.0)
    return held


def _walk_of(access: NestAccess, along: set[int | None]) -> str:
    """How a buffer is walked when the axes `along` the vectors move on by one."""
    if not any(axis in along for dim in access.dims for axis, _ in dim.axes):
        return "broadcast"
    strides = [stride for axis, stride in access.dims[-1].axes if axis in along]
    outer = any(axis in along and stride >= 1 for dim in access.dims[:-1] for axis, stride in dim.axes)
    if not outer and 1 in strides:
        return "contiguous"
    return "second" if not outer and strides == [2] and access.item_bytes >= _SHUFFLED_BYTES else "strided"


def _row(access: NestAccess, along: set[int | None]) -> int:
    """Elements from one row to the next of what runs along vectors.
    The axes `along` them may go through several dimensions, as all pixels of an image do."""
    touched = [at for at, dim in enumerate(access.dims) if any(axis in along for axis, _ in dim.axes)]
    return math.prod(dim.extent for dim in access.dims[min(touched) :])


def _touches(access: NestAccess, loop: NestLoop) -> bool:
    axes = {axis for dim in access.dims for axis, _ in dim.axes}
    return any(part.axis is None or part.axis in axes for part in loop.parts)
