"""The findings of a benchmark run, beside its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuner.bench.changes import LEAST_HISTORY, WINDOW, ChangeKind
from tuner.bench.report import CallWork, ReportLine, line
from tuner.bench.series import model_of
from tuner.records.farm.model_farm import BenchResult, BenchRun
from tuner.records.paging import all_pages
from tuner.records.store import RecordStore

_PAGE = 1000


def lines_of(store: RecordStore, run: BenchRun) -> list[ReportLine]:
    """Every result of a run, in the order of arrival, compared with its series before the run.

    A device whose series is too short to judge is compared with the others of its class. A slower model's entry
    names the kernels that became slower.
    """
    works: dict[str, CallWork] = {}
    found = []
    for result in _results(store, run.id):
        series = store.benches.series(result.kernel, result.device, WINDOW)
        before = [r for r in series if r.measured_at < result.measured_at]
        peers: tuple[BenchResult, ...] = ()
        if len(before) < LEAST_HISTORY:
            peers = store.benches.of_class(result.kernel, result.device_class, result.device, WINDOW)
        work = works.setdefault(result.kernel, CallWork.of(result.kernel))
        found.append(line(result, before, work, [r for r in peers if r.measured_at < result.measured_at]))
    return [_traced(entry, found) for entry in found]


def _traced(entry: ReportLine, lines: Sequence[ReportLine]) -> ReportLine:
    """The line of a slower model with the kernels that made it so, the largest loss first."""
    if entry.change is not ChangeKind.SLOWER:
        return entry
    guilty = [
        other
        for other in lines
        if other.result.device == entry.result.device
        and model_of(other.result.kernel) == entry.result.kernel
        and other.change is not None
    ]
    guilty.sort(key=lambda other: -other.lost_s)
    return replace(entry, through=tuple(other.result.kernel.partition(":")[2] for other in guilty))


def _results(store: RecordStore, run_id: int) -> Iterator[BenchResult]:
    return all_pages(lambda after: store.benches.results(run_id, after, _PAGE), 0, lambda result: result.sequence)
