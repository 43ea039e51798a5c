"""Memory that several threads see while they are interpreted: every access is checked against those before it.

Two accesses race when two threads make them, one of them is a write, and no barrier lies between: threads of one block
in the same interval between barriers, or of two blocks at any time. Atomic updates race with plain accesses only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compiler.errors import LoweringError

_MANY = -1  # more than one thread, or block


class RaceError(LoweringError):
    """Two threads use one element, one of them writes it, and nothing says which comes first."""

    kind = "race"


@dataclass(slots=True)
class Moment:
    """Who runs: a block of the grid, the interval between its barriers, and a thread of it."""

    block: int = 0
    interval: int = 0
    thread: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    """The last access of a kind to an element: `block` or `thread` may be `_MANY`."""

    block: int
    interval: int
    thread: int
    atomic: bool = False

    def races(self, now: Moment) -> bool:
        if self.block != now.block:
            return True
        return self.interval == now.interval and self.thread != now.thread


@dataclass(slots=True)
class Shadow:
    """The last write and the reads since of each element of one allocation."""

    name: str
    now: Moment
    written: dict[int, Access] = field(default_factory=dict)
    read: dict[int, Access] = field(default_factory=dict)

    def on_read(self, at: int) -> None:
        now, last = self.now, self.written.get(at)
        if last is not None and last.races(now):
            self._complain(at, last, "writes", "reads")
        seen = self.read.get(at)
        block, interval, thread = now.block, now.interval, now.thread
        if seen is not None:
            if seen.block == block and seen.interval == interval and seen.thread == thread:
                return
            if seen.block != block:
                block = _MANY
            elif seen.interval == interval:
                thread = _MANY
        self.read[at] = Access(block, interval, thread)

    def on_write(self, at: int, atomic: bool = False) -> None:
        now = self.now
        last = self.written.get(at)
        if last is not None and last.races(now) and not (atomic and last.atomic):
            self._complain(at, last, "writes", "writes")
        seen = self.read.get(at)
        if seen is not None and seen.races(now):
            self._complain(at, seen, "reads", "writes")
        self.written[at] = Access(now.block, now.interval, now.thread, atomic)

    def _complain(self, at: int, before: Access, first: str, then: str) -> None:
        now = self.now
        if before.block != now.block:
            other = "another block" if before.block == _MANY else f"block {before.block}"
            who, between = f"{other} {first} it and block {now.block} {then} it", "nothing orders blocks"
        else:
            other = "another thread" if before.thread == _MANY else f"thread {before.thread}"
            who, between = f"{other} {first} it and thread {now.thread} {then} it", "no barrier between"
        raise RaceError(
            f"race on {self.name}[{at}]: {who}, {between}",
            hint="put T.tvm_storage_sync between them, or let each thread use elements of its own",
        )


class SharedView:
    """What a thread sees of memory that others see too: a memoryview whose accesses are noted."""

    __slots__ = ("_data", "_other_formats", "_shadow", "format")

    def __init__(self, data: memoryview, shadow: Shadow) -> None:
        self._data: Any = data  # elements of one format, as Python numbers
        self._shadow = shadow
        self._other_formats: dict[str, SharedView] = {}
        self.format = data.format

    def __getitem__(self, at: int) -> float:
        self._shadow.on_read(at)
        value: float = self._data[at]
        return value

    def __setitem__(self, at: int, value: float) -> None:
        self._shadow.on_write(at)
        self._data[at] = value

    def __len__(self) -> int:
        return len(self._data)

    def update(self, at: int, value: float, name: str) -> float:
        """An atomic update. Returns what was there."""
        self._shadow.on_write(at, atomic=True)
        before: float = self._data[at]
        after = before + value if name == "atomic_add" else (max if name == "atomic_max" else min)(before, value)
        self._data[at] = after
        return before

    def cast(self, code: str) -> SharedView:
        """The same bytes in another format. Races are looked for among accesses of one format."""
        found = self._other_formats.get(code)
        if found is None:
            data = self._data.cast("B").cast(code)
            shadow = Shadow(self._shadow.name, self._shadow.now)
            found = self._other_formats[code] = SharedView(data, shadow)
        return found
