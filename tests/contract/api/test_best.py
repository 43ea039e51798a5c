"""The lookup build jobs depend on: hits, misses, conditional requests, errors, guard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rpc_server.errors import ConnectError
from tests.kit import patient_http
from tests.kit.records.seed import TARGET, XEON, ZEN3, FakeTracker, Seeded
from tests.kit.web import running_app
from tuner.records.store import RecordStore


@pytest.fixture(scope="module")
def store(seeded_store_of_module: RecordStore) -> RecordStore:
    return seeded_store_of_module


@pytest.fixture(scope="module")
def tracker() -> FakeTracker:
    return FakeTracker()


@pytest.fixture(scope="module")
def api(store: RecordStore, ids: Seeded, tracker: FakeTracker) -> Iterator[httpx.Client]:
    with running_app(store, tracker) as address, patient_http.Client(base_url=f"{address}/api/v1") as client:
        yield client


class TestBest:
    def test_a_hit(self, api: httpx.Client, store: RecordStore, ids: Seeded) -> None:
        query = {"workload": ids.matmul.key, "target": TARGET, "device_class": ZEN3}
        reply = api.get("/best", params=query)
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "application/json"
        body = reply.json()
        stored = store.best.look_up(ids.matmul.key, TARGET, ZEN3).config
        assert stored is not None
        config = body["config"]
        assert body["match"] == "exact"
        assert len(body["explain"]) >= 3
        assert config["trace"] == stored.trace
        assert json.loads(config["trace"])["format"] == "tunefarm.trace"
        assert (config["cost_s"], config["digest"]) == (stored.cost, stored.digest)
        assert config["gflops"] == pytest.approx(2 * 512**3 / stored.cost / 1e9)
        assert config["samples"]["count"] == len(stored.samples)
        assert config["samples"]["low_s"] <= config["cost_s"] <= config["samples"]["high_s"]
        assert config["updated_at"].endswith("Z")

    def test_it_is_not_sent_again(self, api: httpx.Client, ids: Seeded) -> None:
        query = {"workload": ids.matmul.key, "target": TARGET, "device_class": ZEN3}
        tag = api.get("/best", params=query).headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}'):
            again = api.get("/best", params=query, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert api.get("/best", params=query, headers={"If-None-Match": '"other"'}).status_code == 200

    def test_a_miss_explains_itself(self, api: httpx.Client, ids: Seeded) -> None:
        query = {"workload": ids.matmul.key, "target": TARGET, "device_class": XEON}
        reply = api.get("/best", params=query)
        assert reply.status_code == 404
        error = reply.json()["error"]
        assert error["kind"] == "no_config"
        assert ZEN3 in " ".join(error["detail"]["explain"])
        assert "tunefarm tune" in error["hint"]

    def test_an_unknown_workload(self, api: httpx.Client) -> None:
        reply = api.get("/best", params={"workload": "0" * 64, "target": TARGET})
        assert (reply.status_code, reply.json()["error"]["kind"]) == (404, "no_config")

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ({}, "workload"),
            ({"workload": "0" * 64}, "target"),
            ({"workload": "0" * 65, "target": "llvm"}, "workload"),
            ({"workload": "0" * 64, "target": "warp-drive"}, "warp-drive"),
        ],
    )
    def test_bad_questions(self, api: httpx.Client, query: dict[str, str], said: str) -> None:
        reply = api.get("/best", params=query)
        assert reply.status_code == 400
        assert said in reply.json()["error"]["message"]

    def test_the_list(self, api: httpx.Client, ids: Seeded) -> None:
        first = api.get("/best-configs", params={"limit": 2}).json()
        rest = api.get("/best-configs", params={"limit": 2, "after": first["next"]}).json()
        names = [c["workload_name"] for c in first["configs"] + rest["configs"]]
        assert sorted(names) == sorted(w.name for w in (ids.matmul, ids.conv, ids.softmax))
        assert rest["next"] is None
        one = api.get("/best-configs", params={"workload": ids.conv.name}).json()["configs"]
        assert [c["workload_key"] for c in one] == [ids.conv.key]
        assert api.get(f"/best-configs/{one[0]['id']}").json() == one[0]
        assert api.get("/best-configs", params={"device_class": "none such"}).json()["configs"] == []


class TestCatalog:
    def test_workloads(self, api: httpx.Client, ids: Seeded) -> None:
        page = api.get("/workloads", params={"limit": 2}).json()
        assert [w["name"] for w in page["workloads"]] == [ids.matmul.name, ids.conv.name]
        assert page["next"] is not None
        one = api.get(f"/workloads/{ids.matmul.key}").json()
        assert one["spec"] == {"op": "matmul", "args": [512, 512, 512], "dtype": "float32"}
        assert "def matmul" in one["function"]
        assert api.get("/workloads/nope").status_code == 404

    def test_devices_and_health(self, api: httpx.Client, tracker: FakeTracker) -> None:
        live = api.get("/devices").json()
        assert (live["source"], live["problem"]) == ("tracker", "")
        assert [d["state"] for d in live["devices"]] == ["leased", "gone", "quarantined", "ready"]
        assert api.get("/health").json()["tracker"] == "ok"

    def test_a_tracker_that_is_away(self, store: RecordStore, ids: Seeded) -> None:
        away = FakeTracker()
        away.problem = ConnectError("no tracker answers at 127.0.0.1:9190")
        with running_app(store, away) as address:
            devices = patient_http.get(f"{address}/api/v1/devices").json()
            assert (devices["source"], devices["problem"]) == ("records", "no tracker answers at 127.0.0.1:9190")
            assert {d["state"] for d in devices["devices"]} == {"recorded"}
            health = patient_http.get(f"{address}/api/v1/health")
            assert (health.status_code, health.json()["tracker"]) == (200, "away")
            page = patient_http.get(address, headers={"Accept": "text/html"})
            assert "no tracker answers" in page.text


class TestErrors:
    @pytest.mark.parametrize("path", ["/nope", "/runs/abc", "/runs/9999", "/trials/0", "/best-configs/0"])
    def test_one_shape(self, api: httpx.Client, path: str) -> None:
        reply = api.get(path)
        assert reply.status_code in (400, 404)
        error = reply.json()["error"]
        assert set(error) == {"kind", "message", "hint", "detail"}
        assert error["message"]

    def test_a_wrong_method(self, api: httpx.Client) -> None:
        reply = api.delete("/runs")
        assert (reply.status_code, reply.json()["error"]["kind"]) == (405, "method_not_allowed")

    def test_a_store_that_fails(self, tmp_path: Path) -> None:
        store = RecordStore.open(tmp_path / "r.db", create=True)
        with running_app(store) as address:
            assert patient_http.get(f"{address}/api/v1/health").status_code == 200
            store.close()
            for file in tmp_path.iterdir():
                file.unlink()
            (tmp_path / "r.db").write_bytes(b"garbage" * 1000)
            reply = patient_http.get(f"{address}/api/v1/health")
            assert (reply.status_code, reply.json()["error"]["kind"]) == (503, "store_unavailable")
            page = patient_http.get(address, headers={"Accept": "text/html"})
            assert page.status_code == 503
            assert "not a database" in page.text


class TestGuard:
    def test_what_every_reply_carries(self, api: httpx.Client, ids: Seeded) -> None:
        root = str(api.base_url).removesuffix("/api/v1/")
        for path in ("/", "/static/app.css", "/api/v1/runs", "/nope"):
            headers = patient_http.get(root + path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"

    def test_another_name_is_refused(self, store: RecordStore) -> None:
        with running_app(store, hosts=["127.0.0.1", "localhost"]) as address:
            assert patient_http.get(f"{address}/api/v1/runs").status_code == 200
            evil = patient_http.get(f"{address}/api/v1/runs", headers={"Host": "evil.example:80"})
            assert (evil.status_code, evil.json()["error"]["kind"]) == (400, "bad_request")

    def test_tokens(self, store: RecordStore) -> None:
        with running_app(store, tokens=["s3cret"]) as address:
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": "Basic !!!"},
                {"Authorization": "s3cret"},
            ):
                refused = patient_http.get(f"{address}/api/v1/runs", headers=headers)
                assert (refused.status_code, refused.json()["error"]["kind"]) == (401, "unauthorised")
                assert "Basic" in refused.headers["www-authenticate"]
            assert (
                patient_http.get(f"{address}/api/v1/runs", headers={"Authorization": "Bearer s3cret"}).status_code
                == 200
            )
            assert patient_http.get(address, auth=("me", "s3cret")).status_code == 200
            page = patient_http.get(address, headers={"Accept": "text/html"})
            assert page.status_code == 401
            assert "<h1>" in page.text
