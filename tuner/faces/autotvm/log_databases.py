"""Databases of results in memory, under autotvm's names.

An input that was measured is looked up, and not measured again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.record import decode, encode, measure_str_key
from tuner.faces.common.measure_error import MeasureErrorNo

Found = MeasureResult | list[MeasureResult] | None


class Database(ABC):
    """Keeps the results of inputs."""

    @abstractmethod
    def load(self, inp: MeasureInput, get_all: bool = False) -> Found:
        """Return the newest result of an input, all of them for `get_all`; None for one that was never saved."""

    @abstractmethod
    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Keep a result in the place of those before, beside them for `extend`."""


class DummyDatabase(Database):
    """A database in the memory of this process."""

    def __init__(self) -> None:
        self._rows: dict[str, list[str]] = {}

    def load(self, inp: MeasureInput, get_all: bool = False) -> Found:
        rows = self._rows.get(measure_str_key(inp))
        if rows is None:
            return None
        results = [result for _, result in self._decoded(rows)]
        return results if get_all else max(results, key=lambda result: result.timestamp)

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        before = self._rows.get(measure_str_key(inp), []) if extend else []
        self._rows[measure_str_key(inp)] = [*before, encode(inp, res)]

    def filter(
        self, func: Callable[[MeasureInput, list[MeasureResult]], bool]
    ) -> list[tuple[MeasureInput, MeasureResult]]:
        """Return the inputs for which `func(input, results)` holds, each with its newest result."""
        found = []
        for rows in self._rows.values():
            pairs = self._decoded(rows)
            results = [result for _, result in pairs]
            if func(pairs[0][0], results):
                found.append((pairs[0][0], max(results, key=lambda result: result.timestamp)))
        return found

    def flush(self) -> None:
        """Forget everything."""
        self._rows.clear()

    @staticmethod
    def _decoded(rows: Sequence[str]) -> list[tuple[MeasureInput, MeasureResult]]:
        return [pair for pair in map(decode, rows) if pair is not None]


def filter_inputs(
    db: Database, measure_inputs: Sequence[MeasureInput], retry: bool = False
) -> tuple[list[MeasureResult | None], list[MeasureInput]]:
    """Look up inputs before they are measured.

    Returns what the database has for each of them, None where it has nothing, and the inputs without a result.
    For `retry` the inputs whose results are errors count as without one.
    """
    results: list[MeasureResult | None] = []
    unsaved: list[MeasureInput] = []
    for inp in measure_inputs:
        found = db.load(inp)
        result = found[-1] if isinstance(found, list) else found
        again = retry and result is not None and result.error_no != MeasureErrorNo.NO_ERROR
        if result is None or again:
            unsaved.append(inp)
        results.append(None if again else result)
    return results, unsaved
