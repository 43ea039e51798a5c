"""Running the threads of a kernel in lock step: each is a generator that stops where it waits for others.

A thread yields `("barrier", site)` to wait for its block, `("warp", site)` for its warp, and
`(shuffle, site, value, argument, width)` to exchange a value within its warp, for which it is sent another thread's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import LoweringError
from compiler.lower.interp_memory import allocate
from compiler.lower.thread_memory import Moment, Shadow, SharedView
from compiler.lower.thread_tensor import COLLECTIVE
from compiler.tir.gpu_intrin import WARP

Event = tuple[Any, ...]
Copy = tuple[Any, int, list[Any]]
Kernel = Callable[..., Generator[Event, Any, None]]


class DivergentBarrier(LoweringError):
    """Threads that must meet at one barrier or exchange do not all come to it."""

    kind = "divergent_barrier"


@dataclass(slots=True)
class Block:
    """One block of the grid while it runs: its place, the memory its threads share."""

    index: tuple[int, int, int]
    now: Moment
    _shared: dict[int, SharedView] = field(default_factory=dict)

    def shared(self, site: int, name: str, size: int, dtype: str) -> SharedView:
        """The memory of one allocation, the same for each thread."""
        found = self._shared.get(site)
        if found is None:
            found = self._shared[site] = SharedView(allocate(size, dtype), Shadow(name, self.now, size))
        return found


@dataclass(slots=True)
class Thread:
    """One thread: `x`, `y`, `z` of its block, and where it stands. `event` is None while it may go on."""

    block: Block
    number: int
    index: tuple[int, int, int]
    body: Generator[Event, Any, None] | None = None
    event: Event | None = None
    answer: Any = None
    finished: bool = False
    _begun: list[Copy] = field(default_factory=list)  # copies of the group that is being made
    _groups: list[list[Copy]] = field(default_factory=list)

    def copy_later(self, target: Any, at: int, source: Any, start: int, count: int) -> None:
        """Begin an asynchronous copy, which is seen by nobody before it is waited for."""
        self._begun.append((target, at, [source[start + i] for i in range(count)]))

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
    name: str,
    kernel: Kernel,
    grid: Sequence[int],
    block: Sequence[int],
    memories: Mapping[str, memoryview],
    written: Set[str],
) -> None:
    """Run `kernel(thread, **memories)` for each thread of each block, x running fastest. Accesses to memory that it
    writes, which `written` names, are watched.

    Raises RaceError, DivergentBarrier, and what the kernel raises.
    """
    now = Moment()
    seen = {
        label: SharedView(data, Shadow(label, now, len(data))) if label in written else data
        for label, data in memories.items()
    }
    for z, y, x in itertools.product(*map(range, reversed(grid))):
        now.next_block()
        _run_block(name, kernel, Block((x, y, z), now), block, seen)


def _run_block(
    name: str, kernel: Kernel, block: Block, size: Sequence[int], seen: Mapping[str, SharedView | memoryview]
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
        if any(moved):
            continue
        _meet(name, threads, "barrier")
        block.now.next_phase()


def _exchange(name: str, warp: list[Thread]) -> bool:
    """Let the threads of a warp go on that wait for each other. Whether there were any."""
    waiting = [t for t in warp if t.event is not None and t.event[0] != "barrier"]
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


def _source(kind: str, lane: int, argument: int, width: int) -> int:
    """The lane whose value a shuffle gives; its own where the other is outside its group of `width`."""
    first = lane - lane % width
    match kind:
        case "tvm_warp_shuffle":
            return first + argument % width
        case "tvm_warp_shuffle_up":
            other = lane - argument
        case "tvm_warp_shuffle_down":
            other = lane + argument
        case _:
            other = lane ^ argument
    return other if first <= other < first + width else lane


def _meet(name: str, threads: list[Thread], kind: str) -> None:
    """All threads go on, from one and the same place. Raises DivergentBarrier when they do not all wait there."""
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
