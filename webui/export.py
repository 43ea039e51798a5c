"""Whole tables as CSV or JSON, a page of the store at a time: /export/TABLE.csv, /export/TABLE.json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from tuner.goals import Goal
from webui.api.params import Number, Objective
from webui.context import Ctx
from webui.export_tables import TABLES, Filters, Row, Table

router = APIRouter(include_in_schema=False)

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@router.get("/export/{table}.{form}")
def export(
    context: Ctx, table: Table, form: Literal["csv", "json"], run: Number | None = None,
    task: Annotated[int, Query(ge=0)] = 0, workload: str | None = None, target: str | None = None,
    device_class: str | None = None, device: str | None = None, kernel: str | None = None, release: str | None = None,
    old: str | None = None, other: Number | None = None, objective: Objective = Goal.TIME,
) -> Response:  # fmt: skip
    """A whole table. The query says what it is of, and which rows are wanted."""
    given = Filters(
        run=run, task=task, workload=workload or None, target=target or None, device_class=device_class or None,
        device=device or None, kernel=kernel or None, release=release or None, old=old or None, other=other,
        objective=objective,
    )  # fmt: skip
    rows = _begun(TABLES[table](context, given))
    lines, media = (as_csv(rows), "text/csv; charset=utf-8") if form == "csv" else (as_json(rows), "application/json")
    name = f"tunefarm-{table}{'' if run is None else f'-run-{run}'}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(lines, media_type=media, headers=headers)


def _begun(rows: Iterator[Row]) -> Iterator[Row]:
    """Begin with the first row made.
    An error in the question is then answered, not found in a broken file."""
    return chain(list(islice(rows, 1)), rows)


def as_csv(rows: Iterator[Row]) -> Iterator[str]:
    """Return lines of a CSV file (RFC 4180) with a header.
    Text that a spreadsheet would run as a formula is quoted."""
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
