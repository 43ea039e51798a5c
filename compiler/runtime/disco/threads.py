"""Workers as threads of this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from compiler.runtime.core.device import Device
from compiler.runtime.disco.messages import Answer, DiscoError, Instruction, StopWorker
from compiler.runtime.disco.worker import Array, Home, Worker


class _Room:
    """The exchange of a group of threads."""

    def __init__(self, count: int) -> None:
        self._parts: list[memoryview] = [memoryview(b"")] * count
        self._there = 0
        self._turn = 0
        self._failed: dict[int, str] = {}
        self._changed = threading.Condition()

    @contextmanager
    def exchange(self, place: int, part: Array | None) -> Iterator[Sequence[memoryview]]:
        data = np.zeros(0, np.uint8) if part is None else np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        self._pass(place, data.data)
        try:
            yield [*self._parts]
        finally:
            self._pass(place)

    def _pass(self, place: int, part: memoryview | None = None) -> None:
        """Wait until all are here. Raises DiscoError where one of them failed."""
        with self._changed:
            turn = self._turn
            if part is not None:
                self._parts[place] = part
            self._there += 1
            if self._there == len(self._parts):
                self._there = 0
                self._turn += 1
                self._changed.notify_all()
                return
            self._changed.wait_for(lambda: self._turn != turn or bool(self._failed))
            if self._turn == turn:
                self._there -= 1
                raise DiscoError(next(iter(self._failed.values())))

    def fail(self, place: int, error: str) -> None:
        """Send everyone out, now and until `error` is ""."""
        with self._changed:
            if error:
                self._failed[place] = error
            else:
                self._failed.pop(place, None)
            self._changed.notify_all()


class _Meeting:
    """One thread's access to the exchange of its group, and to that of all threads."""

    def __init__(self, group: _Room, everyone: _Room, index: int, size: int) -> None:
        self._rooms = {True: (group, index % size), False: (everyone, index)}

    @contextmanager
    def exchange(self, part: Array | None, in_group: bool) -> Iterator[Sequence[memoryview]]:
        room, place = self._rooms[in_group]
        with room.exchange(place, part) as parts:
            yield parts

    def fail(self, error: str) -> None:
        for room, place in self._rooms.values():
            room.fail(place, error)


class Threads:
    """`count` workers, each a thread with a queue."""

    def __init__(self, count: int, groups: int, places: Sequence[tuple[Device, Home]]) -> None:
        size = count // groups
        everyone, rooms = _Room(count), [_Room(size) for _ in range(groups)]
        self._rooms = [everyone, *rooms]
        self._inboxes: list[queue.SimpleQueue[Instruction]] = [queue.SimpleQueue() for _ in range(count)]
        self._outboxes: list[queue.SimpleQueue[Answer]] = [queue.SimpleQueue() for _ in range(count)]
        self._threads = []
        for index in range(count):
            meeting = _Meeting(rooms[index // size], everyone, index, size)
            worker = Worker(index, count, groups, meeting, *places[index])
            thread = threading.Thread(target=self._work, args=(worker,), name=f"disco-{index}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self, worker: Worker) -> None:
        while True:
            instruction = self._inboxes[worker.index].get()
            if isinstance(instruction, StopWorker):
                return
            answer = worker.execute(instruction)
            if answer is not None:
                self._outboxes[worker.index].put(answer)

    def send(self, index: int, instruction: Instruction) -> None:
        """Tell a worker something."""
        self._inboxes[index].put(instruction)

    def answer(self, index: int) -> Answer:
        """A worker's next answer."""
        return self._outboxes[index].get()

    def close(self) -> None:
        """End the threads."""
        for room in self._rooms:
            room.fail(-1, "the session was shut down")
        for inbox in self._inboxes:
            inbox.put(StopWorker())
        for thread in self._threads:
            thread.join(timeout=5)
