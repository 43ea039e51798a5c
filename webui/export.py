"""Whole tables as CSV or JSON, a page of the store at a time: /export/TABLE.csv, /export/TABLE.json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from tuner.bench.history import lines_of
from tuner.bench.report import as_json as as_row
from tuner.records.model import Trial
from tuner.records.store import RecordStore
from webui.context import Context, Ctx
from webui.errors import BadRequest

router = APIRouter(include_in_schema=False)

_PAGE = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]
Table = Literal["runs", "trials", "best", "workloads", "devices", "benchmarks"]


@dataclass(frozen=True)
class Filters:
    run: int | None = None
    workload: str | None = None
    target: str | None = None
    device_class: str | None = None


def _pages(read: Callable[[int], tuple[Any, ...]], cursor: Callable[[Any], int]) -> Iterator[Any]:
    """Everything that `read(after)` gives, a page after the other."""
    after = 0
    while page := read(after):
        yield from page
        after = cursor(page[-1])


def _runs(context: Context, _: Filters) -> Iterator[Row]:
    before: int | None = None
    while page := context.store.runs(_PAGE, before):
        for run in page:
            for task in run.tasks:
                yield {
                    "run": run.id,
                    "state": str(run.state),
                    "user": run.user,
                    "host": run.host,
                    "started_at": run.started_at,
                    "finished_at": run.finished_at,
                    "workload": task.workload.name,
                    "workload_key": task.workload.key,
                    "target": task.target,
                    "budget": task.budget,
                    "trials": task.trials,
                    "failed": task.failed,
                    "untuned_s": task.baseline_cost,
                    "best_s": task.best_cost,
                    "flops": task.workload.flops,
                }
        before = page[-1].id


def _trials(context: Context, filters: Filters) -> Iterator[Row]:
    if filters.run is None:
        raise BadRequest("say which run's trials: /export/trials.csv?run=7")
    run_id = context.store.run(filters.run).id
    names = {task.id: task.workload.name for task in context.store.run(run_id).tasks}
    return (_trial(trial, names) for trial in _every_trial(context.store, run_id))


def _every_trial(store: RecordStore, run_id: int) -> Iterator[Trial]:
    return _pages(lambda after: store.trials(run_id, after, _PAGE, with_trace=False), lambda trial: trial.sequence)


def _trial(trial: Trial, names: Mapping[int, str]) -> Row:
    return {
        "trial": trial.id,
        "sequence": trial.sequence,
        "workload": names[trial.task_id],
        "purpose": str(trial.purpose),
        "status": str(trial.status),
        "failure": None if trial.failure is None else str(trial.failure),
        "time_s": trial.cost,
        "mad_s": trial.mad,
        "verified": trial.verified,
        "best_so_far": trial.improved,
        "noise": " ".join(trial.noise),
        "device": trial.device,
        "device_class": trial.device_class,
        "build_s": trial.build_s,
        "measure_s": trial.measure_s,
        "started_at": trial.started_at,
        "finished_at": trial.finished_at,
        "digest": trial.digest,
        "failure_text": trial.failure_text,
    }


def _best(context: Context, filters: Filters) -> Iterator[Row]:
    def read(after: int) -> tuple[Any, ...]:
        return context.store.best_configs(
            after, _PAGE, workload=filters.workload, target=filters.target, device_class=filters.device_class
        )

    for config in _pages(read, lambda config: config.id):
        yield {
            "config": config.id,
            "workload": config.workload_name,
            "workload_key": config.workload_key,
            "target": config.target,
            "device_class": config.device_class,
            "toolchain": config.toolchain,
            "time_s": config.cost,
            "low_s": config.low,
            "high_s": config.high,
            "flops": config.flops,
            "run": config.run_id,
            "trial": config.trial_id,
            "device": config.device,
            "since": config.since,
            "digest": config.digest,
        }


def _workloads(context: Context, _: Filters) -> Iterator[Row]:
    for found in _pages(lambda after: context.store.workloads(after, _PAGE), lambda workload: workload.id):
        yield {"key": found.key, "name": found.name, "flops": found.flops, "created_at": found.created_at}


def _devices(context: Context, _: Filters) -> Iterator[Row]:
    for device in context.fleet.view().devices:
        yield {
            "device": device.name,
            "state": device.state,
            "reason": device.reason,
            "key": device.key,
            "address": device.address,
            "device_class": device.device_class,
            "cpu": device.cpu,
            "cores": device.cores,
            "user": device.user,
            "busy_share": device.busy_share,
            "seen_at": device.seen_at,
        }


def _benchmarks(context: Context, filters: Filters) -> Iterator[Row]:
    if filters.run is None:
        raise BadRequest("say which benchmark's results: /export/benchmarks.csv?run=7")
    run = context.store.bench_run(filters.run)
    return (as_row(line) for line in lines_of(context.store, run))


_TABLES: dict[Table, Callable[[Context, Filters], Iterator[Row]]] = {
    "runs": _runs,
    "trials": _trials,
    "best": _best,
    "workloads": _workloads,
    "devices": _devices,
    "benchmarks": _benchmarks,
}


@router.get("/export/{table}.{form}")
def export(
    context: Ctx,
    table: Table,
    form: Literal["csv", "json"],
    run: Annotated[int | None, Query(ge=1)] = None,
    workload: str | None = None,
    target: str | None = None,
    device_class: str | None = None,
) -> Response:
    """A whole table; `run` chooses whose trials, the others narrow the best configs."""
    rows = _TABLES[table](context, Filters(run, workload or None, target or None, device_class or None))
    lines, media = (as_csv(rows), "text/csv; charset=utf-8") if form == "csv" else (as_json(rows), "application/json")
    name = f"tunefarm-{table}{'' if run is None else f'-run-{run}'}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(lines, media_type=media, headers=headers)


def as_csv(rows: Iterator[Row]) -> Iterator[str]:
    """Lines of a CSV file (RFC 4180) with a header; text that a spreadsheet would run as a formula is quoted."""
    for number, row in enumerate(rows):
        if number == 0:
            yield _csv_line(list(row))
        yield _csv_line([_cell(value) for value in row.values()])


def _csv_line(cells: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case str() if value.startswith(_FORMULA):
            return f"'{value}"
        case _:
            return value


def as_json(rows: Iterator[Row]) -> Iterator[str]:
    """A JSON array, a line a row."""
    yield "["
    for number, row in enumerate(rows):
        plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
        yield ("\n" if number == 0 else ",\n") + json.dumps(plain, ensure_ascii=False)
    yield "\n]\n"
