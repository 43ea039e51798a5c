"""Answers to lookups, kept in this process for as long as nothing that they rest on changes.

A lookup is asked far more often than its answer changes. A build asks for each of its kernels, and a fleet of builds
for the same ones. The mark is taken before the database is asked. A change in between therefore invalidates an
answer that may have missed it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

from sqlalchemy import Engine

from tuner.records.db.database import sqlite_path
from tuner.records.db.listening import PostgresWatch
from tuner.records.lookup.changes import ChangeWatch, SqliteWatch
from tuner.records.model import BestLookup

MOST_BYTES = 64 << 20
MOST_EACH = 1 << 20
_BESIDE = 2000  # bytes of the question and of what Python needs
_SELDOM = 32

T = TypeVar("T")


class Answers(Generic[T]):
    """The answers since a mark. Those asked for longest ago make room. Usable in any thread."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._mark: Hashable = None
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, question: Hashable, mark: Hashable) -> T | None:
        """Return an earlier answer, if the store still serves the state of `mark`."""
        with self._lock:
            if mark != self._mark:
                self._mark = mark
                self._kept.clear()
                self._bytes = 0
            known = self._kept.get(question)
            if known is None:
                return None
            self._kept.move_to_end(question)
            return known[0]

    def keep(self, question: Hashable, mark: Hashable, answer: T, size: int) -> None:
        """Keep `answer`, of so many bytes, which was made after `mark`.
        It is dropped if there was a later mark meanwhile."""
        with self._lock:
            if mark != self._mark or question in self._kept or size > MOST_EACH:
                return
            self._kept[question] = answer, size
            self._bytes += size + _BESIDE
            while self._bytes > self._most_bytes:
                self._bytes -= self._kept.popitem(last=False)[1][1] + _BESIDE


Place = tuple[str, str | None, str | None]
"""The target, device class and toolchain asked for."""


class RememberedLookups:
    """Lookups that the store was asked for before.
    It begins to remember when it is asked often, or when `watch` is called, because a program that asks little is
    not worth another connection. Usable in any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._watch: ChangeWatch | None = None
        self._asked = 0
        self._answers = Answers[BestLookup]()

    def watch(self) -> ChangeWatch:
        with self._lock:
            if self._watch is None:
                path = sqlite_path(self._engine.url)
                self._watch = PostgresWatch(self._engine) if path is None else SqliteWatch(path)
            return self._watch

    def best_of(
        self, workloads: Collection[str], place: Place, look_up: Callable[[Collection[str]], Mapping[str, BestLookup]]
    ) -> dict[str, BestLookup]:
        """Return all of `workloads` from memory, or all from `look_up`.
        They are thus of one state of the store."""
        self._asked += 1
        watch = self._watch or (self.watch() if self._asked > _SELDOM else None)
        if watch is None:
            return dict(look_up(workloads))
        mark = watch.glance()
        if mark is None:
            found = dict(look_up(workloads))
            watch.revive()
            return found
        known = {key: answer for key in workloads if (answer := self._answers.get((key, place), mark)) is not None}
        if len(known) == len(set(workloads)):
            return known
        found = dict(look_up(workloads))
        for key, answer in found.items():
            self._answers.keep((key, place), mark, answer, _size(answer))
        return found

    def close(self) -> None:
        with self._lock:
            if self._watch is not None:
                self._watch.close()


def _size(answer: BestLookup) -> int:
    return sum(map(len, answer.explain)) + (0 if answer.config is None else len(answer.config.trace))
