"""Model asynchronous copies and products of a block.

Tensor memory copies, barriers in memory, and warpgroup products.

`compiler.tir.intrin.ptx_warpgroup` has the instructions. A copy arrives as late as it may: when its barrier's phase
ends. A product reads at once and ends as late as it may: when it is waited for. Vector clocks say which of two events
comes first. A warp's clock counts its arrivals. A barrier passes on the clocks of the threads that arrived, and waiting
threads learn them. A race is a read before the data is known to have arrived, or a write over data that is not known to
have been read. That this run's order of threads would hide the race changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.errors import LoweringError
from compiler.interp.thread_memory import THREADS_OF_PHASE, RaceError, SharedView
from compiler.tir.intrin.gpu import WARP
from compiler.tir.intrin.ptx_warpgroup import ALIGN, DEPTH, ROW, ROWS, WARPGROUP, swizzled

Clock = dict[Any, int]  # arrivals by warp, phases by barrier
Places = np.ndarray[Any, np.dtype[np.int64]]
_NAN = 0x7FFF  # of both dtypes


def _learn(clock: Clock, other: Clock) -> None:
    for who, count in other.items():
        clock[who] = max(clock.get(who, 0), count)


@dataclass(slots=True)
class Barrier:
    """A barrier in memory. `phase` counts the phases that are over."""

    name: str
    count: int
    maker: int
    made: int  # in which phase of the block
    pending: int = 0
    phase: int = 0
    expected: int = 0
    brought: int = 0
    seen_by_copies: bool = False
    arriving: list[tuple[Watched, Places, Any]] = field(default_factory=list)
    clock: Clock = field(default_factory=dict)  # of all who arrived in phases that are over
    joining: Clock = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pending = self.count

    def is_over(self, parity: int) -> bool:
        return self.phase & 1 != parity

    def end_if_complete(self) -> None:
        if self.pending or self.expected != self.brought:
            return
        self.phase += 1
        self.pending, self.expected, self.brought = self.count, 0, 0
        _learn(self.clock, self.joining)
        self.clock[self.name] = self.phase
        self.joining = {}
        for memory, places, values in self.arriving:
            memory.land(places, values, self)
        self.arriving = []


class Watched:
    """Shared memory as copies and products see it: past the threads' own view."""

    def __init__(self, view: SharedView) -> None:
        size = len(view)
        self.view = view
        self.data = view.elements
        self.flying = np.zeros(size, bool)
        self.filled_by = np.full(size, -1)  # the position in `fillers`
        self.filled_at = np.zeros(size, np.int64)  # the barrier's phase
        self.fillers: list[str] = []
        self.reading: dict[int, Any] = {}  # by warp: how many products read an element
        self.read: dict[int, Any] = {}  # by warp: the count of arrivals that tells of the last read

    def land(self, places: Places, values: Any, barrier: Barrier) -> None:
        if barrier.name not in self.fillers:
            self.fillers.append(barrier.name)
        self.data[places] = values
        self.flying[places] = False
        self.filled_by[places] = self.fillers.index(barrier.name)
        self.filled_at[places] = barrier.phase

    def overwrite(self, places: Places, clock: Clock) -> None:
        """A copy to `places` begins."""
        if self.flying[places].any():
            raise self._race("a copy begins where another has not arrived")
        for warp, counts in self.read.items():
            if self.reading[warp][places].any() or counts[places].max() > clock.get(warp, 0):
                raise self._race(f"a copy begins where warp {warp} may still read")
        self.flying[places] = True
        self.data[places] = _NAN

    def begin_read(self, places: Places, clocks: dict[int, Clock], fences: dict[int, int]) -> None:
        """A product reads `places`, for each warp."""
        if self.flying[places].any():
            raise self._race("a product reads what has not arrived")
        fillers = self.filled_by[places]
        for position, barrier in enumerate(self.fillers):
            phases = self.filled_at[places][fillers == position]
            for warp, clock in clocks.items():
                if phases.size and phases.max() > clock.get(barrier, 0):
                    raise self._race(f"warp {warp} multiplies what a copy brought, and has not waited for it")
        self._check_stored(places[fillers < 0], fences)
        for warp in clocks:
            if warp not in self.read:
                self.reading[warp] = np.zeros(len(self.view), np.int64)
                self.read[warp] = np.zeros(len(self.view), np.int64)
            self.reading[warp][places] += 1

    def _check_stored(self, places: Places, fences: dict[int, int]) -> None:
        """Check that values stored by threads are read after a fence of theirs and a barrier."""
        for stamp in {self.view.written_at(int(at)) for at in places.ravel()}:
            if stamp is None:
                continue
            thread, start = stamp % THREADS_OF_PHASE, stamp - stamp % THREADS_OF_PHASE
            if start >= self.view.phase:
                raise self._race(f"a product reads what thread {thread} stores, with no barrier between")
            if fences.get(thread, -1) < start:
                raise RaceError(
                    f"race on {self.view.name}: thread {thread} stored what a product reads, without a fence",
                    hint="T.ptx_fence_proxy_async() after the stores, before the barrier",
                )

    def end_read(self, places: Places, warp: int, count: int) -> None:
        self.reading[warp][places] -= 1
        self.read[warp][places] = count

    def _race(self, what: str) -> RaceError:
        return RaceError(
            f"race on {self.view.name}: {what}",
            hint="wait for the barrier that copies arrive at; arrive at one of your own when products are done",
        )


class Transfers:
    """The barriers of one block, and what its copies and products do to its memory."""

    def __init__(self) -> None:
        self._barriers: dict[tuple[int, int], Barrier] = {}
        self._watched: dict[int, Watched] = {}
        self._clocks: dict[int, Clock] = {}
        self._fences: dict[int, int] = {}  # by thread: the phase of the block of its last one

    def _clock(self, thread: Any) -> Clock:
        return self._clocks.setdefault(thread.number // WARP, {})

    def _watch(self, view: SharedView) -> Watched:
        found = self._watched.get(id(view))
        if found is None:
            found = self._watched[id(view)] = Watched(view)
        return found

    # ----------------------------------------------------------------------------------- barriers

    def make(self, thread: Any, view: SharedView, at: int, count: int) -> None:
        name = f"{view.name}[{at}]"
        view[at] = 0
        self._barriers[id(view), at] = Barrier(name, count, thread.number, view.phase)

    def show_to_copies(self, thread: Any) -> None:
        for barrier in self._barriers.values():
            barrier.seen_by_copies |= barrier.maker == thread.number

    def fence(self, thread: Any) -> None:
        self._fences[thread.number] = thread.block.now.start

    def barrier(self, thread: Any, view: SharedView, at: int) -> Barrier:
        found = self._barriers.get((id(view), at))
        if found is None:
            raise LoweringError(f"{view.name}[{at}] is used as a barrier before ptx_mbarrier_init made it one")
        if found.made == view.phase and found.maker != thread.number:
            raise RaceError(
                f"thread {thread.number} uses the barrier {found.name} that thread {found.maker} makes, no barrier of "
                "the block between",
                hint="T.tvm_storage_sync after ptx_mbarrier_init",
            )
        return found

    def arrive(self, thread: Any, view: SharedView, at: int, expected: int = 0) -> None:
        barrier, clock, warp = self.barrier(thread, view, at), self._clock(thread), thread.number // WARP
        if not barrier.pending:
            raise LoweringError(f"more than {barrier.count} threads arrive at {barrier.name} in a phase")
        clock[warp] = clock.get(warp, 0) + 1
        _learn(barrier.joining, clock)
        barrier.expected += expected
        barrier.pending -= 1
        barrier.end_if_complete()

    def has_waited(self, thread: Any, barrier: Barrier, parity: int) -> bool:
        """Whether the phase is over. If so, the thread learns the clocks of those that arrived."""
        if not barrier.is_over(parity):
            return False
        _learn(self._clock(thread), barrier.clock)
        return True

    # ------------------------------------------------------------------------------------- copies

    def copy(
        self, thread: Any, target: SharedView, at: int, source: Any, corner: tuple[int, int], shape: tuple[int, int],
        rows: int, view: SharedView, index: int,
    ) -> None:  # fmt: skip
        """Begin to copy `rows` rows of 64 elements of a matrix."""
        barrier = self.barrier(thread, view, index)
        if not barrier.seen_by_copies:
            raise LoweringError(f"a copy arrives at {barrier.name} without ptx_fence_mbarrier_init after it was made")
        if at % (ALIGN // 2):
            raise LoweringError(f"a tile in swizzled rows starts at element {at} of {target.name}, no multiple of 512")
        matrix = np.asarray(getattr(source, "elements", source)).reshape(shape)
        tile = np.zeros((rows, ROW), matrix.dtype)
        (first, last), (left, right) = (
            (max(start, 0), min(start + size, most)) for start, size, most in zip(corner, (rows, ROW), shape)
        )
        if first < last and left < right:
            inside = tile[first - corner[0] : last - corner[0], left - corner[1] : right - corner[1]]
            inside[:] = matrix[first:last, left:right]
        memory, places = self._watch(target), _places(at, rows, ROW, ROW)
        _check_inside(target, places)
        memory.overwrite(places, self._clock(thread))
        barrier.arriving.append((memory, places, tile))
        barrier.brought += tile.nbytes
        barrier.end_if_complete()

    # ----------------------------------------------------------------------------------- products

    def multiply(self, threads: Sequence[Any], operands: tuple[Any, ...]) -> None:
        """Begin the product of a warpgroup's threads."""
        a, a_at, b, b_at, columns, transposed, leading, dtype = operands
        left = _places(a_at, ROWS, DEPTH, ROW)
        if transposed:
            column, k = np.arange(columns)[:, None], np.arange(DEPTH)[None, :]
            right = swizzled(b_at + column // ROW * leading + k * ROW + column % ROW)
        else:
            right = _places(b_at, columns, DEPTH, ROW)
        clocks = {thread.number // WARP: self._clock(thread) for thread in threads[::WARP]}
        values = []
        reads: list[tuple[Watched, Places]] = []
        for view, places in ((a, left), (b, right)):
            _check_inside(view, places)
            memory = self._watch(view)
            memory.begin_read(places, clocks, self._fences)
            reads.append((memory, places))
            values.append(_numbers(memory.data[places], dtype))
        sums = values[0] @ values[1].T
        rows, along = _layout(columns)
        for thread, own in zip(threads, sums[rows, along]):
            _, _, memory, at, _ = thread.event
            thread.products.begin(memory, at, own, reads)

    def finish(self, thread: Any, reads: Sequence[tuple[Watched, Places]]) -> None:
        """Products of the thread's warp are done with what they read."""
        warp = thread.number // WARP
        for memory, places in reads:
            memory.end_read(places, warp, self._clock(thread).get(warp, 0) + 1)


class Products:
    """The products of one thread that are under way."""

    __slots__ = ("_fenced", "_flying", "_groups", "_open")

    def __init__(self) -> None:
        self._fenced = False
        self._flying: dict[tuple[int, int], tuple[Any, Any]] = {}  # sums by their place: (memory, values)
        self._open: list[tuple[tuple[int, int], Any]] = []
        self._groups: list[list[tuple[tuple[int, int], Any]]] = []

    def fence(self) -> None:
        self._fenced = True

    def begin(self, memory: Any, at: int, added: Any, reads: Any) -> None:
        """Nobody sees the sums until they are waited for."""
        key = id(memory), at
        if key not in self._flying:
            if not self._fenced:
                raise LoweringError("a warpgroup's product begins without ptx_wgmma_fence after its sums were used")
            values = np.array([memory[at + i] for i in range(len(added))], np.float32)
            self._flying[key] = memory, values
            for i in range(len(added)):
                memory[at + i] = np.nan
        values = self._flying[key][1]
        values += added.astype(np.float32)
        self._open.append((key, reads))

    def commit(self) -> None:
        self._groups.append(self._open)
        self._open = []

    def wait(self, thread: Any, most: int) -> None:
        """Let all but the last `most` groups be done."""
        while len(self._groups) > most:
            group = self._groups.pop(0)
            if thread.number % WARP == 0:  # what a warp reads is noted once
                for _, reads in group:
                    thread.block.transfers.finish(thread, reads)
            later = {key for rest in (*self._groups, self._open) for key, _ in rest}
            for key in {key for key, _ in group} - later:
                memory, values = self._flying.pop(key)
                for i, value in enumerate(values.tolist()):
                    memory[key[1] + i] = value
                self._fenced = False


def _places(at: int, rows: int, columns: int, pitch: int) -> Places:
    found: Places = swizzled(at + np.arange(rows)[:, None] * pitch + np.arange(columns)[None, :])
    return found


def _layout(columns: int) -> tuple[Places, Places]:
    """The row and column of each sum of each thread of a warpgroup."""
    thread, i = np.arange(WARPGROUP)[:, None], np.arange(columns // 2)[None, :]
    warp, lane = thread // WARP, thread % WARP
    return 16 * warp + lane // 4 + i % 4 // 2 * 8, i // 4 * 8 + lane % 4 * 2 + i % 2


def _numbers(bits: Any, dtype: str) -> Any:
    if dtype == "float16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _check_inside(view: SharedView, places: Places) -> None:
    if places.min() < 0 or places.max() >= len(view):
        raise IndexError(f"{view.name} has {len(view)} elements; a tile reaches from {places.min()} to {places.max()}")
