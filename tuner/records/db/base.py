"""The common base of `RecordStore`'s parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine

from tuner.records.db.database import reading, write
from tuner.records.errors import InvalidRecord

T = TypeVar("T")

MAX_PAGE = 10_000


class StorePart:
    """A subject of the record store: its questions and changes, each run as one transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _write(self, action: Callable[[Connection], T]) -> T:
        return write(self._engine, action)

    def _read(self, question: Callable[[Connection], T]) -> T:
        with reading(self._engine) as connection:
            return question(connection)


def page_size(limit: int) -> int:
    """`limit`, when it is one. Raises InvalidRecord."""
    if not 0 < limit <= MAX_PAGE:
        raise InvalidRecord(f"a page has 1 to {MAX_PAGE} entries, not {limit}")
    return limit
