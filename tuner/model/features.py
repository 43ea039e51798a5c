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
from tuner.model.nest import Nest, NestAccess
from tuner.model.population import WAYS, Population
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
        population = _Columns(self.nest, self.machine, where)
        columns = population.columns()
        columns["draft"] = draft(columns, self.nest, self.machine)
        matrix = np.stack([columns[name] for name in NAMES], axis=1)
        waits = Waits(population.pieces_written(), population.handed_over(), population.pushed_out())
        return matrix, late(columns["draft"], waits, columns["balance"] * self.machine.threads)


def _log(values: Floats | Ints | float) -> Floats:
    return np.log2(np.maximum(values, 1e-9))


class _Columns(Population):
    """Features of a population, by name; arrays of (candidates,)."""

    def columns(self) -> dict[str, Floats]:
        columns = {**self._workload(), **self._body(), **self._tails(), **self._memory(), **self._threads()}
        steps = self.nest.steps
        columns |= {
            "caches_read": self.all(steps.get("cache_read", 0)),
            "caches_written": self.all(steps.get("cache_write", 0)),
            "factored": self.all(steps.get("rfactor", 0)),
            "tensorized": self.all(steps.get("tensorize", 0)),
            "blocks": self.all(self.nest.blocks),
        }
        return columns

    def _workload(self) -> dict[str, Floats]:
        size = float(sum(np.prod([d.extent for d in a.dims]) * a.item_bytes for a in self.nest.accesses))
        spatial = float(np.prod([a.extent for a in self.nest.axes if not a.reduce]))
        return {
            "ops": self.all(np.log2(self.ops)),
            "bytes": self.all(np.log2(size)),
            "intensity": self.all(np.log2(self.ops / size)),
            "spatial": self.all(np.log2(spatial)),
            "reduced": self.all(np.log2(self.points / spatial)),
        }

    def _body(self) -> dict[str, Floats]:
        """The loops at the inner end that are unrolled or vectors: one straight piece of code."""
        loops = self.nest.loops
        start = len(loops)
        while start and loops[start - 1].kind in (n.ForKind.UNROLLED, n.ForKind.VECTORIZED):
            start -= 1
        spatial = [at for at in range(start, len(loops)) if not self.reduces(loops[at])]
        vector = [at for at in spatial if loops[at].kind is n.ForKind.VECTORIZED]
        lanes = self.product([self.extent[at] for at in vector])
        repeats = self.product([self.extent[at] for at in spatial if at not in vector])
        vectors = np.ceil(lanes / self.machine.lanes) * repeats
        along = {p.axis for at in vector for p in loops[at].parts}
        rows = self.product([self.extent[at] for at in spatial if not along & {p.axis for p in loops[at].parts}])
        reduce = self.product([self.extent[at] for at in range(start, len(loops)) if self.reduces(loops[at])])
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
            "inner_trip": _log(self.extent[serial[-1]]) if serial else self.all(0.0),
            "loop_steps": _log(self.outer[start] / self.points),
            "reduce_inside": _log(self._reduce_inside(start)),
            "runs": _log(self._runs(self._sum_start(start), along)),
            **self._in_place(self._sum_start(start), along),
        }

    def _operands(self, start: int, along: set[int | None], steps: Floats) -> dict[str, Floats]:
        """How the body's operands are loaded: along vectors, one value for all lanes, or gathered.
        Vectors of every second element count as those along them, but for the loads they take."""
        loads, kinds = self.all(0.0), {"contiguous": 0, "broadcast": 0, "strided": 0}
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
            "store_contiguous": self.all(stored),
            **{kind: self.all(count) for kind, count in kinds.items()},
        }

    def _sum_start(self, start: int) -> int:
        """The first of the loops between loading and storing an accumulator."""
        first = start
        while first and self.reduces(self.nest.loops[first - 1]):
            first -= 1
        return first

    def _reduce_inside(self, start: int) -> Floats:
        """Steps of the reduction between loading and storing an accumulator."""
        loops = range(self._sum_start(start), len(self.nest.loops))
        return self.product([self.extent[at] for at in loops if self.reduces(self.nest.loops[at])])

    def _runs(self, start: int, along: set[int | None]) -> Floats:
        """How many separate pieces of an operand along vectors one register tile's sums read.
        It is one if it was copied for that, and a row for each step if it is read in place."""
        most = np.ones(self.count)
        for access in self._read_in_place(along):
            most = np.maximum(most, self.pieces(access, self.tiles[start]))
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
        way = self.machine.l2_bytes // WAYS
        for access in self._read_in_place(along):
            if len(access.dims) > 1:
                row = _row(access, along) * access.item_bytes
                room = WAYS * way // math.gcd(row, way)
                crowded = np.maximum(crowded, self.pieces(access, self.tiles[start]) / room)
                ragged = max(ragged, float(row % LINE_BYTES != 0))
        return {"crowded": _log(crowded), "ragged": self.all(ragged)}

    def pieces_written(self) -> Floats:
        """Return into how many pieces of memory an operation's result is written.
        The first line of each is late. A piece is what tiles of one row write one after another. None if the result
        fits the second-level cache, or if what is computed from it earlier does."""
        [written] = [access.kept for access in self.nest.accesses if access.written]
        size = float(np.prod([dim.extent for dim in written.dims]))
        if not self.nest.writes_result or size * written.item_bytes <= self.machine.l2_bytes:
            return self.all(0.0)
        loops = self.nest.loops
        start = next((at for at, loop in enumerate(loops) if self.reduces(loop)), len(loops))
        rows = self.pieces(written, self.tiles[start])
        piece, goes_on = self.product(self.spans(written, self.tiles[start])) / rows, np.ones(self.count, bool)
        for depth in range(start - 1, -1, -1):
            if loops[depth].kind is n.ForKind.PARALLEL:
                break
            goes_on = goes_on & (self.pieces(written, self.tiles[depth]) == rows)
            longer = self.product(self.spans(written, self.tiles[depth])) / rows
            piece = np.where(goes_on, longer, piece)
        return size / piece / self.ops

    def handed_over(self) -> Floats:
        """Return the bytes for an operation that a thread reads of other threads' writes.
        All threads filled the buffer together before, and each task reads all of it."""
        parallel = self.kinds(n.ForKind.PARALLEL)
        total = np.zeros(self.count)
        for number, access in enumerate(self.nest.accesses):
            if access.handed and parallel:
                task, whole = self.footprints[parallel[-1] + 1][number], self.footprints[0][number]
                total = total + np.where(task < whole, 0.0, whole)
        return total * (self.machine.threads - 1) / self.ops

    def _tails(self) -> dict[str, Floats]:
        fill, vector_fill = np.ones(self.count), np.ones(self.count)
        along = {p.axis for at in self.kinds(n.ForKind.VECTORIZED) for p in self.nest.loops[at].parts}
        for number, axis in enumerate(self.nest.axes):
            covered = self.product(
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
        straight = self.kinds(n.ForKind.UNROLLED, n.ForKind.VECTORIZED)
        for number, axis in enumerate(self.nest.axes):
            tile = self.product(
                [self.part[p.var] for at in straight for p in self.nest.loops[at].parts if p.axis == number]
            )
            filled = filled * axis.extent / (np.ceil(axis.extent / tile) * tile)
        return filled

    def _memory(self) -> dict[str, Floats]:
        machine = self.machine
        parallel = self.kinds(n.ForKind.PARALLEL)
        inside = self.working[parallel[-1] + 1] if parallel else self.working[0]
        copied, singly, turned, copied_bytes = (self.all(0.0) for _ in range(4))
        along = {p.axis for at in self.kinds(n.ForKind.VECTORIZED) for p in self.nest.loops[at].parts}
        for number, access in enumerate(self.nest.accesses):
            if access.filled_at is not None and not access.ahead:
                piece = self.footprints[access.filled_at][number]
                share = piece * self.outer[access.filled_at] / self.ops
                copied, copied_bytes = copied + share, copied_bytes + piece
                if _walk_of(access, along) == "broadcast":
                    singly = singly + share
                elif access.turned:
                    turned = turned + share
        return {
            "l1_traffic": _log(self.traffic(machine.l1_bytes)),
            "l2_traffic": _log(self.traffic(machine.l2_bytes)),
            "l3_traffic": _log(self.traffic(machine.l3_bytes)),
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
            return self.all(0.0)
        axes = {axis for at in written.summed for axis, _ in written.dims[at].axes}
        each = self.product([self.part[p.var] for loop in self.nest.loops for p in loop.parts if p.axis in axes])
        return each * float(np.prod([dim.extent for dim in written.kept.dims])) / self.ops

    def _threads(self) -> dict[str, Floats]:
        tasks = self.product([self.extent[at] for at in self.kinds(n.ForKind.PARALLEL)])
        threads = self.machine.threads
        return {
            "tasks": _log(tasks),
            "tasks_a_thread": _log(tasks / threads),
            "balance": self._balance(tasks),
            "task_ops": _log(self.ops / tasks),
        }

    def _balance(self, tasks: Floats) -> Floats:
        """How evenly threads are loaded; the last task along an axis may be smaller than the others."""
        parts = [p.var for at in self.kinds(n.ForKind.PARALLEL) for p in self.nest.loops[at].parts]
        last = [self.last.get(var, self.all(1.0)) for var in parts]
        whole = self.product([self.part[var] - (share < 1.0) for var, share in zip(parts, last)])
        work = self.product([self.part[var] - 1.0 + share for var, share in zip(parts, last)])
        small = tasks - whole
        return balance(whole, small, (work - whole) / np.maximum(small, 1.0), self.machine.threads)


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
