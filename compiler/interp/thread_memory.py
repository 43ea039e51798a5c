"""Memory that several threads see while they are interpreted.

Every access is checked against those before it.

Two accesses race when two threads make them, one of them is a write, and no barrier lies between. The threads are of
one block in the same interval between barriers, or of two blocks at any time. Atomic updates race with plain accesses
only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.errors import LoweringError

_NEVER = -1
_BLOCKS = -2  # read by several blocks
THREADS_OF_PHASE = 2048  # numbers for the threads of a phase; a block has 1024 at most
_THREADS = THREADS_OF_PHASE - 1  # read by several threads of a phase


class RaceError(LoweringError, kind="race"):
    """Two threads use one element, one of them writes it, and nothing says which comes first."""


class Moment:
    """The running thread and its phase, an interval between barriers of one block.
    Phases are counted on from block to block. One number, `stamp`, therefore says which thread made an access and when.
    `first` is the first number of the block, `start` that of the phase."""

    __slots__ = ("first", "stamp", "start")

    def __init__(self) -> None:
        self.first = self.start = self.stamp = 0

    def next_phase(self) -> None:
        self.start += THREADS_OF_PHASE

    def next_block(self) -> None:
        self.next_phase()
        self.first = self.start

    def run(self, thread: int) -> None:
        self.stamp = self.start + thread


class Shadow:
    """The stamps of the last write and the last read of each element of one allocation."""

    __slots__ = ("atomic", "name", "now", "read", "written")

    def __init__(self, name: str, now: Moment, size: int) -> None:
        self.name, self.now = name, now
        self.written = [_NEVER] * size
        self.read = [_NEVER] * size
        self.atomic: set[int] = set()  # elements whose last write was an atomic update

    def on_read(self, at: int) -> None:
        now, last = self.now, self.written[at]
        if last != _NEVER and (last < now.first or (last >= now.start and last != now.stamp)):
            self._complain(at, last, "writes", "reads")
        seen = self.read[at]
        if seen == now.stamp or seen == _BLOCKS:
            return
        if seen == _NEVER or now.first <= seen < now.start:
            self.read[at] = now.stamp
        else:
            self.read[at] = _BLOCKS if seen < now.first else now.start + _THREADS

    def on_write(self, at: int, atomic: bool = False) -> None:
        now, last, seen = self.now, self.written[at], self.read[at]
        if last != _NEVER and (last < now.first or (last >= now.start and last != now.stamp)):
            self._on_second_write(at, last, atomic)
        if seen != _NEVER and (seen < now.first or (seen >= now.start and seen != now.stamp)):
            self._complain(at, seen, "reads", "writes")
        self.written[at] = now.stamp
        if atomic:
            self.atomic.add(at)
        else:
            self.atomic.discard(at)

    def _on_second_write(self, at: int, last: int, atomic: bool) -> None:
        if not (atomic and at in self.atomic):
            self._complain(at, last, "writes", "writes")

    def _complain(self, at: int, before: int, first: str, then: str) -> None:
        now = self.now
        if before < now.first:
            who, between = f"another block {first} it and this one {then} it", "nothing orders blocks"
        else:
            other = before - now.start
            name = "another thread" if other == _THREADS else f"thread {other}"
            who, between = f"{name} {first} it and thread {now.stamp - now.start} {then} it", "no barrier between"
        raise RaceError(
            f"race on {self.name}[{at}]: {who}, {between}",
            hint="put T.tvm_storage_sync between them, or let each thread use elements of its own",
        )


class SharedView:
    """A thread's view of shared memory: a memoryview whose accesses are noted."""

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

    def begin(self, at: int) -> None:
        """A copy to an element is begun."""
        self._shadow.on_write(at)

    def __len__(self) -> int:
        return len(self._data)

    @property
    def name(self) -> str:
        return self._shadow.name

    @property
    def elements(self) -> Any:
        """All of them as numpy sees them; accesses to these are not noted."""
        return np.asarray(self._data)

    @property
    def phase(self) -> int:
        """The stamp that the phase at hand begins with."""
        return self._shadow.now.start

    def written_at(self, at: int) -> int | None:
        """The stamp of the last write to an element."""
        stamp = self._shadow.written[at]
        return None if stamp == _NEVER else stamp

    def update(self, at: int, value: float, name: str) -> float:
        """An atomic update. Returns what was there."""
        self._shadow.on_write(at, atomic=True)
        before: float = self._data[at]
        after = before + value if name == "atomic_add" else (max if name == "atomic_max" else min)(before, value)
        self._data[at] = after
        return before

    def cast(self, code: str) -> SharedView:
        """The same bytes in another format. Races are only looked for among accesses of one format."""
        found = self._other_formats.get(code)
        if found is None:
            data = self._data.cast("B").cast(code)
            shadow = Shadow(self._shadow.name, self._shadow.now, len(data))
            found = self._other_formats[code] = SharedView(data, shadow)
        return found
