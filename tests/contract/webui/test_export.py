"""Whole tables as files, and pages that were asked for what is not there."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import get_args

import httpx
import pytest

from tests.kit.records.seed import FakeTracker, Seeded
from tests.kit.web import running_app
from tuner.records.store import RecordStore
from webui.export import as_csv
from webui.export_tables import Table


@pytest.fixture(scope="module")
def store(seeded_store_of_module: RecordStore) -> RecordStore:
    return seeded_store_of_module


@pytest.fixture(scope="module")
def web(store: RecordStore, ids: Seeded) -> Iterator[httpx.Client]:
    with running_app(store, FakeTracker()) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


OF = {
    "runs": {},
    "trials": {"run": "finished"},
    "best": {},
    "workloads": {},
    "devices": {},
    "queues": {},
    "events": {"device": "rack1-02/0"},
    "device-trials": {"device": "rack1-02/0"},
    "device-benchmarks": {"device": "rack1-01/0"},
    "benchmark-runs": {},
    "benchmarks": {"run": "benchmark"},
    "series": {"device": "rack1-01/0", "kernel": "matmul:512,512,512:float32"},
    "releases": {},
    "release": {"release": "2026.10"},
    "release-diff": {"release": "2026.11", "old": "2026.10"},
    "choices": {"run": "finished", "task": 1},
    "compared": {"run": "finished", "other": "running"},
}
"""The query of each table; `run` and `other` are names of the seed."""


def test_every_table_is_tried() -> None:
    assert set(OF) == set(get_args(Table))


@pytest.mark.parametrize("table", OF)
def test_csv_and_json_have_the_same_rows(web: httpx.Client, ids: Seeded, table: str) -> None:
    query = {name: getattr(ids, value) if name in ("run", "other") else value for name, value in OF[table].items()}
    text = web.get(f"/export/{table}.csv", params=query)
    data = web.get(f"/export/{table}.json", params=query).json()
    rows = list(csv.DictReader(io.StringIO(text.text)))
    assert text.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in text.headers["content-disposition"]
    assert len(rows) == len(data) > 0
    assert [list(row) for row in rows] == [list(row) for row in data]


def test_all_trials_of_a_run_are_in_it(web: httpx.Client, store: RecordStore, ids: Seeded) -> None:
    rows = web.get("/export/trials.json", params={"run": ids.finished}).json()
    run = store.runs.get(ids.finished)
    assert sum(row["purpose"] == "search" for row in rows) == run.trials
    assert sum(row["status"] == "failed" for row in rows) == run.failed
    assert [row["sequence"] for row in rows] == list(range(1, len(rows) + 1))


def test_best_configs_are_narrowed(web: httpx.Client, ids: Seeded) -> None:
    rows = web.get("/export/best.json", params={"workload": ids.conv.key}).json()
    assert {row["workload_key"] for row in rows} == {ids.conv.key}
    assert web.get("/export/best.json", params={"workload": "unheard-of"}).json() == []


def test_a_spreadsheet_runs_no_formula_of_a_failure_text() -> None:
    lines = list(as_csv(iter([{"text": '=HYPERLINK("http://x")', "number": -1.5}])))
    assert lines == ["text,number\r\n", '"\'=HYPERLINK(""http://x"")",-1.5\r\n']


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/export/trials.csv", 400, "which run"),
        ("/export/trials.csv?run=999", 404, "run 999"),
        ("/export/secrets.csv", 400, "table"),
        ("/export/runs.csv?run=999", 404, "run 999"),
        ("/export/events.csv", 400, "which device"),
        ("/export/series.csv?device=y", 400, "which kernel"),
        ("/export/release.csv?release=none", 404, "none"),
        ("/export/compared.csv?run=1", 400, "which runs"),
        ("/devices/none", 404, "there is no device none"),
        ("/export/runs.xml", 400, "form"),
        ("/export/benchmarks.csv", 400, "which benchmark"),
        ("/benchmarks/999", 404, "benchmark run 999"),
        ("/benchmarks/series?kernel=x&device=y", 404, "nothing was measured of x on y"),
        ("/releases/none", 404, "none"),
        ("/releases/2026.11/diff?old=none", 404, "none"),
        ("/runs/999/choices", 404, "run 999"),
        ("/runs/1/choices?task=7", 404, "workload number 7"),
        ("/workloads/feed", 404, "feed"),
        ("/compare?a=1&b=1", 400, "cannot be compared with itself"),
        ("/compare?a=1&b=999", 404, "run 999"),
        ("/compare?a=x", 400, "a: "),
    ],
)
def test_what_is_not_there_is_said(web: httpx.Client, path: str, status: int, says: str) -> None:
    reply = web.get(path)
    assert reply.status_code == status
    assert says in reply.json()["error"]["message"]


def test_a_run_without_measured_candidates_has_pages_all_the_same(web: httpx.Client, ids: Seeded) -> None:
    page = web.get(f"/runs/{ids.failed}/choices", headers={"Accept": "text/html"})
    assert "none was measured yet" in page.text
    page = web.get("/compare", params={"a": ids.failed, "b": ids.interrupted}, headers={"Accept": "text/html"})
    assert "only one run has a result" in page.text


def test_what_to_compare_is_chosen_run_by_run(web: httpx.Client, ids: Seeded) -> None:
    page = web.get("/compare", headers={"Accept": "text/html"}).text
    assert 'select name="a"' in page
    assert f'<option value="{ids.finished}">' in page
    then = web.get("/compare", params={"a": ids.finished}, headers={"Accept": "text/html"}).text
    assert f'name="a" value="{ids.finished}"' in then
    assert 'select name="b"' in then
