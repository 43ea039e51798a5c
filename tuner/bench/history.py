"""What a benchmark run found, against what was known before it."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.bench.changes import WINDOW
from tuner.bench.report import ReportLine, Work, line
from tuner.records.farm.model_farm import BenchResult, BenchRun
from tuner.records.store import RecordStore

_PAGE = 1000


def lines_of(store: RecordStore, run: BenchRun) -> list[ReportLine]:
    """Every result of a run, in the order of arrival, with how it stands to its series before the run."""
    works: dict[str, Work] = {}
    found = []
    for result in _results(store, run.id):
        series = store.benches.series(result.kernel, result.device, WINDOW)
        work = works.setdefault(result.kernel, Work.of(result.kernel))
        found.append(line(result, [r for r in series if r.measured_at < result.measured_at], work))
    return found


def _results(store: RecordStore, run_id: int) -> Iterator[BenchResult]:
    after = 0
    while page := store.benches.results(run_id, after, _PAGE):
        yield from page
        after = page[-1].sequence
