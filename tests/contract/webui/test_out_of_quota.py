"""A run that a quota stopped, on the pages, over the API and on the command line."""

from __future__ import annotations

import html
import json
from pathlib import Path

import httpx
import pytest

from tests.kit.cli.run import run_cli
from tests.kit.records.farm import Farm
from tests.kit.web import running_app
from tuner.records.model import RunState
from tuner.records.store import RecordStore

WHY = "the quota of 5 device hours within 30 days is used up"


def test_everyone_is_told_why_it_stopped_and_how_to_go_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    db = f"sqlite:///{tmp_path / 'records.db'}"
    with RecordStore.open(db, create=True) as store:
        run = Farm(store).run(
            user="ann", name="matmul", command="tunefarm tune matmul --key='a b' --device x:1 --device y:2"
        )
        store.runs.set_state(run.id, RunState.OUT_OF_QUOTA, WHY)
        with running_app(store) as address:
            told = httpx.get(f"{address}/api/v1/runs/{run.id}").json()
            page = httpx.get(f"{address}/runs/{run.id}").text
            listed = httpx.get(f"{address}/runs").text
    assert (told["state"], told["message"]) == ("out_of_quota", WHY)
    assert WHY in page
    assert "Out of quota:" in page
    devices = "--key 'a b' --device x:1 --device y:2"
    assert f"tunefarm tune --resume {run.id} {devices}" in html.unescape(page)
    assert "out of quota" in listed
    again = f"tunefarm tune --resume {run.id} --db {db} {devices}"
    text = run_cli(capfd, "runs", "--db", db).out
    assert f"run {run.id} is out of quota: {WHY}; go on with: {again}" in text
    [as_json] = json.loads(run_cli(capfd, "runs", "--db", db, "--json").out)
    assert (as_json["state"], as_json["message"], as_json["resume"]) == ("out_of_quota", WHY, again)
