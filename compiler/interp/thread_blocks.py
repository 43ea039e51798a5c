"""Running the threads of a kernel in lock step.

Each is a generator that stops where it waits for others.

A thread yields one of these:

* `("barrier", site)` waits for its block, `("warp", site)` for its warp.
* `(shuffle, site, value, argument, width)` exchanges a value within its warp: it is sent another thread's.
* `("mbarrier", site, barrier, parity)` waits for a phase of a barrier in memory.
* `("warpgroup", site, sums, at, operands)` begins a product with its warpgroup.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.errors import LoweringError
from compiler.interp.memory import allocate
from compiler.interp.thread_memory import Moment, Shadow, SharedView
from compiler.interp.thread_transfers import Products, Transfers
from compiler.tir.intrin.gpu import WARP
from compiler.tir.intrin.ptx_warpgroup import WARPGROUP

_NOT_OF_WARPS = ("barrier", "mbarrier", "warpgroup")
Event = tuple[Any, ...]
Copy = tuple[Any, int, list[Any]]
Kernel = Callable[..., Generator[Event, Any, None]]


class DivergentBarrier(LoweringError, kind="divergent_barrier"):
    """Threads that must meet at one barrier or exchange do not all come to it."""


@dataclass(slots=True)
class ThreadBlock:
    """One block of the grid while it runs: its place, the memory its threads share."""

    index: tuple[int, int, int]
    now: Moment
    _shared: dict[int, SharedView] = field(default_factory=dict)
    transfers: Transfers = field(default_factory=Transfers)

    def shared(self, site: int, name: str, size: int, dtype: str) -> SharedView:
        """The memory of one allocation, the same for each thread."""
        found = self._shared.get(site)
        if found is None:
            found = self._shared[site] = SharedView(allocate(size, dtype), Shadow(name, self.now, size))
        return found


@dataclass(slots=True)
class Thread:
    """One thread: `x`, `y`, `z` of its block, and where it stands. `event` is None while it may go on."""

    block: ThreadBlock
    number: int
    index: tuple[int, int, int]
    body: Generator[Event, Any, None] | None = None
    event: Event | None = None
    answer: Any = None
    finished: bool = False
    products: Products = field(default_factory=Products)
    _begun: list[Copy] = field(default_factory=list)  # copies of the group that is being made
    _groups: list[list[Copy]] = field(default_factory=list)

    def copy_later(self, target: Any, at: int, source: Any, start: int, count: int, held: bool) -> None:
        """Begin an asynchronous copy, or one of zeros unless `held`.
        Nobody sees it before it is waited for. It may overwrite its destination from now on, so nobody may still read
        that."""
        for i in range(count):
            target.begin(at + i)
        self._begun.append((target, at, [source[start + i] for i in range(count)] if held else [0] * count))

    def commit(self) -> None:
        self._groups.append(self._begun)
        self._begun = []

    def wait(self, most: int) -> None:
        """Let all but the last `most` groups arrive."""
        while len(self._groups) > most:
            for target, at, values in self._groups.pop(0):
                for i, value in enumerate(values):
                    target[at + i] = value

    def advance(self) -> None:
        """Run up to the next event, or the end."""
        assert self.body is not None
        self.block.now.run(self.number)
        try:
            self.event = self.body.send(self.answer)
        except StopIteration:
            self.event, self.finished = None, True
        self.answer = None


def launch(
    name: str, kernel: Kernel, grid: Sequence[int], block: Sequence[int], memories: Mapping[str, memoryview],
    written: Set[str],
) -> None:  # fmt: skip
    """Run `kernel(thread, **memories)` for each thread of each block, x running fastest.

    Accesses to memory that it writes, which `written` names, are watched. Raises RaceError, DivergentBarrier, and what
    the kernel raises.
    """
    now = Moment()
    seen = {
        label: SharedView(data, Shadow(label, now, len(data))) if label in written else data
        for label, data in memories.items()
    }
    for z, y, x in itertools.product(*map(range, reversed(grid))):
        now.next_block()
        _run_block(name, kernel, ThreadBlock((x, y, z), now), block, seen)


def _run_block(
    name: str, kernel: Kernel, block: ThreadBlock, size: Sequence[int], seen: Mapping[str, SharedView | memoryview]
) -> None:
    places = itertools.product(*map(range, reversed(size)))
    threads = [Thread(block, number, (x, y, z)) for number, (z, y, x) in enumerate(places)]
    for thread in threads:
        thread.body = kernel(thread, **seen)
    while True:
        for thread in threads:
            if not thread.finished and thread.event is None:
                thread.advance()
        if all(thread.finished for thread in threads):
            return
        warps = [threads[i : i + WARP] for i in range(0, len(threads), WARP)]
        moved = [_exchange(name, warp) for warp in warps]
        groups = [threads[i : i + WARPGROUP] for i in range(0, len(threads), WARPGROUP)]
        moved += [_multiply(name, group) for group in groups]
        moved += [_pass(thread) for thread in threads]
        if any(moved):
            continue
        _check_stuck(name, groups)
        _meet(name, threads, "barrier")
        block.now.next_phase()


def _exchange(name: str, warp: list[Thread]) -> bool:
    """Resume the threads of a warp that wait for each other. Returns whether there were any."""
    waiting = [t for t in warp if t.event is not None and t.event[0] not in _NOT_OF_WARPS]
    if not waiting:
        return False
    event = waiting[0].event
    assert event is not None
    values = {t.number % WARP: t.event for t in waiting if t.event is not None}
    _meet(name, warp, event[0])
    if event[0] in COLLECTIVE:
        if len(warp) < WARP:
            raise DivergentBarrier(f"{name}: {_place(event)} needs whole warps; this one has {len(warp)} threads")
        for thread, answer in zip(warp, COLLECTIVE[event[0]]([values[lane] for lane in range(WARP)])):
            thread.answer = answer
    elif event[0] != "warp":
        for lane, thread in enumerate(warp):
            _, _, own, argument, width = values[lane]
            source = _source(event[0], lane, argument, width)
            there = values.get(source)
            thread.answer = own if there is None else there[2]
    return True


def _multiply(name: str, group: list[Thread]) -> bool:
    """Begin a product of a warpgroup once all of its threads have come to it.
    Returns whether they had."""
    if len(group) < WARPGROUP or any(t.event is None or t.event[0] != "warpgroup" for t in group):
        return False
    events = [thread.event for thread in group if thread.event is not None]
    operands = events[0][4]
    if any(event[4] != operands for event in events):
        raise DivergentBarrier(f"{name}: {_place(events[0])} has different operands in the threads of a warpgroup")
    group[0].block.transfers.multiply(group, operands)
    _meet(name, group, "warpgroup")
    return True


def _pass(thread: Thread) -> bool:
    """Resume a thread that waits at a barrier in memory, if its phase is over. Returns whether it was."""
    if thread.event is None or thread.event[0] != "mbarrier":
        return False
    _, _, barrier, parity = thread.event
    if not thread.block.transfers.has_waited(thread, barrier, parity):
        return False
    thread.event = None
    return True


def _check_stuck(name: str, groups: list[list[Thread]]) -> None:
    """Raise DivergentBarrier for threads that wait elsewhere than the others, at a barrier of the block."""
    for group in groups:
        if any(t.event is not None and t.event[0] == "warpgroup" for t in group):
            _meet(name, group, "warpgroup")
            raise DivergentBarrier(f"{name}: a product of warpgroups needs 128 threads; here are {len(group)}")
    for thread in (t for group in groups for t in group):
        if thread.event is not None and thread.event[0] == "mbarrier":
            barrier, parity = thread.event[2:]
            raise DivergentBarrier(
                f"{name}: thread {thread.number} waits for a phase of {barrier.name} with parity {parity} that nothing "
                f"ends: {barrier.pending} of {barrier.count} arrivals and {barrier.expected - barrier.brought} bytes "
                "are missing",
                hint="each phase needs all its arrivals, and copies that bring exactly the bytes announced",
            )


def _source(kind: str, lane: int, argument: int, width: int) -> int:
    """The lane whose value a shuffle gives; its own where the other is outside its group of `width`.
    But "xor" reaches earlier groups, as it does on a GPU."""
    first = lane - lane % width
    after = first + width
    match kind:
        case "tvm_warp_shuffle":
            return first + argument % width
        case "tvm_warp_shuffle_up":
            other = lane - argument
        case "tvm_warp_shuffle_down":
            other = lane + argument
        case _:
            first, other = 0, lane ^ argument
    return other if first <= other < after else lane


def _meet(name: str, threads: list[Thread], kind: str) -> None:
    """Resume all threads from one barrier. Raises DivergentBarrier when they do not all wait there."""
    first = next((t for t in threads if t.event is not None), None)
    assert first is not None
    assert first.event is not None
    for thread in threads:
        if thread.event is None or thread.event[:2] != first.event[:2] or thread.event[0] != kind:
            where = "has ended" if thread.finished else f"waits at {_place(thread.event)}"
            raise DivergentBarrier(
                f"{name}: thread {first.number} waits at {_place(first.event)}, which thread {thread.number} of block "
                f"{thread.block.index} does not come to: it {where}",
                hint="barriers and shuffles must not stand under conditions that differ between threads",
            )
    for thread in threads:
        thread.event = None


def _place(event: Event | None) -> str:
    return "nothing" if event is None else f"{event[0]} {event[1]}"


# ------------------------------------------------------------------ tensor instructions of a warp, in numpy
#
# `events` are those of its 32 threads in order. The layouts are those of the figures for mma.m16n8k16, mma.m16n8k32
# and ldmatrix in the PTX manual.


def load_matrices(events: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """Turn each thread's ("ldmatrix", site, row, trans) into 8 elements, two of each of four matrices.
    Where a row has 16 bytes, it becomes 16 bytes."""
    rows = [event[2] for event in events]
    trans, size = bool(events[0][3]), len(rows[0]) // 8
    found: list[list[int]] = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        elements: list[int] = []
        for matrix in range(4):
            for e in (2 * t, 2 * t + 1):
                row, column = (e, g) if trans else (g, e)
                elements += rows[8 * matrix + row][column * size : (column + 1) * size]
        found.append(elements)
    return found


def multiply(events: Sequence[tuple[Any, ...]]) -> list[list[float]]:
    """("mma", site, a, b, c) of each thread → its 4 sums."""
    size = len(events[0][2]) // 4  # neighbours along k in one register: 2 elements of 16 bits, 4 of 8
    half = 4 * size
    a, b, c = np.zeros((16, 2 * half)), np.zeros((2 * half, 8)), np.zeros((16, 8))
    for lane, (_, _, own_a, own_b, own_c) in enumerate(events):
        g, t = divmod(lane, 4)
        near = slice(size * t, size * (t + 1))
        far = slice(half + size * t, half + size * (t + 1))
        a[g, near], a[g + 8, near] = own_a[:size], own_a[size : 2 * size]
        a[g, far], a[g + 8, far] = own_a[2 * size : 3 * size], own_a[3 * size :]
        b[near, g], b[far, g] = own_b[:size], own_b[size:]
        c[g, 2 * t : 2 * t + 2], c[g + 8, 2 * t : 2 * t + 2] = own_c[:2], own_c[2:]
    d = c + a @ b  # float64: exact for bytes, too
    found: list[list[float]] = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        found.append([float(d[g + row, 2 * t + e]) for row in (0, 8) for e in (0, 1)])
    return found


Instruction = Callable[[Sequence[tuple[Any, ...]]], Sequence[list[Any]]]

COLLECTIVE: dict[str, Instruction] = {"ldmatrix": load_matrices, "mma": multiply}
