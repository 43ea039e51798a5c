"""Runs of benchmark suites."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tuner.records.db.base import StorePart, page_size
from tuner.records.farm import benches
from tuner.records.farm.model_farm import BenchResult, BenchRun, NewBenchResult, NewBenchRun
from tuner.records.model import RunState


class BenchRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def start(self, new: NewBenchRun) -> BenchRun:
        """Record that a suite begins to run."""
        return self._write(lambda c: benches.start(c, new))

    def add_results(self, run_id: int, new: Sequence[NewBenchResult]) -> tuple[int, ...]:
        """Record results, all or none; returns their ids. Raises RecordNotFound, InvalidRecord."""
        return self._write(lambda c: benches.add_results(c, run_id, new)) if new else ()

    def end(self, run_id: int, state: RunState, message: str = "", *, at: datetime | None = None) -> BenchRun:
        """Say how a benchmark run ended. Raises RecordNotFound."""
        return self._write(lambda c: benches.end(c, run_id, state, message, at))

    def get(self, run_id: int) -> BenchRun:
        """One benchmark run. Raises RecordNotFound."""
        return self._read(lambda c: benches.get(c, run_id))

    def newest(self, limit: int = 50, before: int | None = None) -> tuple[BenchRun, ...]:
        """The newest benchmark runs, newest first; with `before`, those older than that id."""
        return self._read(lambda c: benches.newest(c, before, page_size(limit)))

    def results(self, run_id: int, after: int = 0, limit: int = 100) -> tuple[BenchResult, ...]:
        """A benchmark run's results by rising sequence number, those above `after`."""
        return self._read(lambda c: benches.results(c, run_id, after, page_size(limit)))

    def series(self, kernel: str, device: str, limit: int = 500) -> tuple[BenchResult, ...]:
        """The last results of a kernel on a device (by name), oldest first."""
        return self._read(lambda c: benches.series(c, kernel, device, page_size(limit)))

    def of_class(self, kernel: str, device_class: str, but: str, limit: int = 500) -> tuple[BenchResult, ...]:
        """The last results of a kernel on a class's other devices than `but` (by name), oldest first."""
        return self._read(lambda c: benches.of_class(c, kernel, device_class, but, page_size(limit)))
