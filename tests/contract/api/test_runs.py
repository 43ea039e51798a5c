"""Runs, trials, curves and live events over HTTP, and what OpenAPI says of it all."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

import webui
from tests.kit import patient_http
from tests.kit.records.seed import Seeded, go_on
from tests.kit.web import running_app
from tuner.records.model import RunState
from tuner.records.store import RecordStore


@pytest.fixture
def store(seeded_store: RecordStore) -> RecordStore:
    return seeded_store


def test_runs_newest_first(api: httpx.Client, ids: Seeded) -> None:
    page = api.get("/runs", params={"limit": 3}).json()
    assert [r["state"] for r in page["runs"]] == ["running", "interrupted", "failed"]
    last = api.get("/runs", params={"limit": 3, "before": page["next"]}).json()
    assert ([r["id"] for r in last["runs"]], last["next"]) == ([ids.finished], None)


def test_one_run(api: httpx.Client, ids: Seeded) -> None:
    run = api.get(f"/runs/{ids.finished}").json()
    assert (run["state"], run["trials"], run["budget"]) == ("finished", 128, 128)
    assert run["command"].startswith("tunefarm tune matmul:512,512,512:float32 ")
    assert sum(f["count"] for f in run["failures"]) == run["failed"]
    assert run["progress"]["eta_s"] is None
    assert [t["workload_key"] for t in run["tasks"]] == [ids.matmul.key, ids.conv.key]
    failed = api.get(f"/runs/{ids.failed}").json()
    assert (failed["failures"][0]["kind"], failed["failures"][0]["count"]) == ("build", 12)
    assert "no exp on this target" in failed["failures"][0]["first_text"]


def test_trials_by_page(api: httpx.Client, ids: Seeded) -> None:
    path = f"/runs/{ids.finished}/trials"
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        page = api.get(path, params={"after": after, "limit": 50}).json()
        seen += [t["sequence"] for t in page["trials"]]
        after = page["next"]
    assert seen == list(range(1, 131))
    latest = api.get(path, params={"before": 0, "limit": 2}).json()
    assert [t["sequence"] for t in latest["trials"]] == [130, 129]
    assert latest["next"] == 129
    failed = api.get(path, params={"status": "failed", "limit": 1000}).json()["trials"]
    assert failed
    assert all(t["failure"] and t["cost_s"] is None for t in failed)
    assert api.get(path, params={"before": 5, "after": 5}).status_code == 400
    assert api.get("/runs/9999/trials").status_code == 404


def test_one_trial_has_its_trace(api: httpx.Client, ids: Seeded) -> None:
    listed = api.get(f"/runs/{ids.finished}/trials", params={"after": 2, "limit": 1}).json()["trials"][0]
    assert "trace" not in listed
    trial = api.get(f"/trials/{listed['id']}").json()
    assert json.loads(trial["trace"])["version"] == 1
    assert {k: trial[k] for k in listed} == listed


def test_curves(api: httpx.Client, ids: Seeded) -> None:
    reply = api.get(f"/runs/{ids.finished}/curve").json()
    assert reply["sequence"] == 130
    assert [c["task"]["workload_key"] for c in reply["curves"]] == [ids.matmul.key, ids.conv.key]
    curve = reply["curves"][0]
    costs = [p["cost_s"] for p in curve["points"]]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == curve["task"]["best_cost_s"]
    assert len(curve["trials"]) == 64
    one = api.get(f"/runs/{ids.finished}/curve", params={"workload": ids.conv.key, "max_points": 5}).json()
    assert [c["task"]["workload_key"] for c in one["curves"]] == [ids.conv.key]
    assert len(one["curves"][0]["points"]) <= 5
    assert one["curves"][0]["points"][-1]["cost_s"] == reply["curves"][1]["points"][-1]["cost_s"]


# ------------------------------------------------------------------------------------- events


def _events(response: httpx.Response) -> Iterator[tuple[int, str, Any]]:
    number, name = 0, ""
    for line in response.iter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield number, name, json.loads(line[6:])


def test_an_ended_run_is_told_to_its_end(api: httpx.Client, ids: Seeded) -> None:
    with api.stream("GET", f"/runs/{ids.finished}/events", params={"after": 100}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = list(_events(response))
    names = [name for _, name, _ in events]
    assert names[0] == "trials"
    assert names[-2:] == ["progress", "end"]
    assert [t["sequence"] for t in events[0][2]] == list(range(101, 131))
    best = [data for _, name, data in events if name == "best"]
    assert best
    assert all(data["sequence"] > 100 for data in best)
    assert events[-1][2]["state"] == "finished"
    assert {number for number, _, _ in events} == {130}


READ_BY_THE_PAGE = {
    "trials": {"sequence", "task", "purpose", "finished_at", "cost_s"},
    "best": {"sequence", "task", "elapsed_s", "cost_s"},
    "progress": {"state", "tasks"},
    "end": {"state", "message"},
}


def test_every_event_by_name_and_what_the_page_reads_of_it(api: httpx.Client, ids: Seeded) -> None:
    script = Path(webui.__file__).with_name("static") / "run.js"
    assert set(re.findall(r'\bon\("(\w+)"', script.read_text())) == set(READ_BY_THE_PAGE)
    told: dict[str, Any] = {}
    for run in (ids.finished, ids.failed):
        with api.stream("GET", f"/runs/{run}/events", params={"after": 0}) as response:
            told |= {name: data for _, name, data in _events(response)}
    assert set(told) == {*READ_BY_THE_PAGE, "failures"}
    for name, fields in READ_BY_THE_PAGE.items():
        data = told[name]
        assert fields <= set(data[0] if name == "trials" else data), name
    assert {"kind", "count", "first_text"} <= set(told["failures"][0])


def test_a_live_run(api: httpx.Client, store: RecordStore, ids: Seeded) -> None:
    stop = threading.Event()
    before = store.runs.get(ids.running).trials

    def tune() -> None:
        list(islice(go_on(store, ids.running, stop, pause_s=0.02), 40))
        store.runs.set_state(ids.running, RunState.FINISHED, "done")

    with api.stream("GET", f"/runs/{ids.running}/events") as response:
        events = _events(response)
        assert next(events)[1] == "progress"
        tuner = threading.Thread(target=tune)
        tuner.start()
        told = list(events)
        tuner.join()
    sequences = [t["sequence"] for _, name, data in told if name == "trials" for t in data]
    assert sequences == list(range(before + 3, before + 43))  # two baselines came before the trials
    assert told[-1][1:] == ("end", {"state": "finished", "message": "done"})
    progress = [data for _, name, data in told if name == "progress"]
    assert progress[-1]["trials"] == before + 40


def test_a_client_that_comes_back_misses_nothing(api: httpx.Client, ids: Seeded) -> None:
    with api.stream("GET", f"/runs/{ids.finished}/events", headers={"Last-Event-ID": "127"}) as response:
        events = list(_events(response))
    assert [t["sequence"] for t in events[0][2]] == [128, 129, 130]


def test_no_events_of_an_unknown_run(api: httpx.Client) -> None:
    reply = api.get("/runs/9999/events")
    assert (reply.status_code, reply.json()["error"]["kind"]) == (404, "record_not_found")


# ------------------------------------------------------------------------------------ OpenAPI


def test_every_route_says_what_it_answers(api: httpx.Client) -> None:
    spec = api.get("/openapi.json").json()
    assert set(spec["paths"]) >= {
        "/api/v1/best",
        "/api/v1/runs",
        "/api/v1/runs/{run_id}",
        "/api/v1/runs/{run_id}/trials",
        "/api/v1/runs/{run_id}/curve",
        "/api/v1/runs/{run_id}/events",
        "/api/v1/workloads",
        "/api/v1/devices",
        "/api/v1/health",
    }
    for path, methods in spec["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
            content = next(reply["content"] for code, reply in operation["responses"].items() if code[0] == "2")
            if "application/json" in content and not path.endswith("/file"):
                assert "$ref" in content["application/json"]["schema"], path
            for status in ("400", "404", "503"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema["$ref"].endswith("/ErrorReply")
            for parameter in operation.get("parameters", []):
                assert parameter["schema"], path


def test_the_422_that_frameworks_add_is_not_promised(api: httpx.Client) -> None:
    spec = api.get("/openapi.json").json()
    assert not any("422" in op["responses"] for methods in spec["paths"].values() for op in methods.values())


# ------------------------------------------------------------------------------------- pages


def test_every_page_renders_for_every_run(api: httpx.Client, store: RecordStore, ids: Seeded) -> None:
    root = str(api.base_url).removesuffix("/api/v1/")
    paths = [
        "/",
        "/runs",
        "/runs?before=3",
        "/best",
        "/best?workload=nope",
        f"/best?workload={ids.conv.name}",
        "/best/1",
    ]
    paths += [f"/runs/{run}" for run in (ids.finished, ids.failed, ids.interrupted, ids.running)]
    paths += [f"/runs/{ids.finished}?status=failed", f"/runs/{ids.finished}?before=50&status=ok"]
    paths += [f"/trials/{t.id}" for t in store.trials.page(ids.finished, limit=40)]
    for path in paths:
        page = patient_http.get(root + path, headers={"Accept": "text/html"})
        assert page.status_code == 200, path
        assert "<h1>" in page.text, path
        assert "<script>" not in page.text
        assert "style=" not in page.text
    missing = patient_http.get(f"{root}/runs/9999", headers={"Accept": "text/html"})
    assert missing.status_code == 404
    assert "there is no run 9999" in missing.text


def test_an_empty_store_says_what_to_do(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        RecordStore.open(tmp_path_factory.mktemp("empty") / "r.db", create=True) as store,
        running_app(store) as address,
    ):
        for path, said in (("/", "tunefarm server"), ("/runs", "tunefarm tune"), ("/best", "No best configs yet")):
            assert said in patient_http.get(address + path).text


def test_what_users_write_is_shown_not_run(store: RecordStore, ids: Seeded, api: httpx.Client) -> None:
    store.runs.set_state(ids.failed, RunState.FAILED, "<script>alert(1)</script>")
    root = str(api.base_url).removesuffix("/api/v1/")
    page = patient_http.get(f"{root}/runs/{ids.failed}").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
