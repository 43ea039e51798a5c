"""The API around tuning: batches, explanations, records, releases, events, leases, benchmarks, runs begun, roles."""

from __future__ import annotations

import httpx
import pytest
from fastapi.routing import APIRoute

from compiler.errors import TunefarmError
from tests.kit import patient_http
from tests.kit.records.seed import TARGET, XEON, ZEN3, Seeded
from tests.kit.web import FakeLauncher, running_app
from tunefarm.client import Client
from tuner.kernels.jobs import recorded_job
from tuner.records.farm.model_farm import NewBenchResult, NewBenchRun, Role
from tuner.records.farm.quotas import Quota
from tuner.records.model import RunState
from tuner.records.store import RecordStore
from webui.access import FailureLimit
from webui.app import create_app


@pytest.fixture
def store(seeded_store: RecordStore) -> RecordStore:
    return seeded_store


class TestLookups:
    def test_a_batch(self, api: httpx.Client, ids: Seeded) -> None:
        lookups = [{"workload": ids.matmul.key}, {"workload": "0" * 64}]
        body = {"target": TARGET, "device_class": ZEN3, "lookups": lookups}
        reply = api.post("/best/batch", json=body).json()
        hit, miss = reply["answers"]
        one = api.get("/best", params={"workload": ids.matmul.key, "target": TARGET, "device_class": ZEN3}).json()
        assert (hit["match"], hit["trace"], hit["digest"]) == ("exact", one["trace"], one["config"]["digest"])
        assert (miss["match"], miss["trace"], reply["misses"]) == ("miss", None, 1)
        assert api.post("/best/batch", json={**body, "lookups": []}).status_code == 400
        assert api.post("/best/batch", json={**body, "more": 1}).status_code == 400

    def test_explain(self, api: httpx.Client, ids: Seeded) -> None:
        query = {"workload": ids.matmul.key, "target": TARGET, "device_class": ZEN3}
        reply = api.get("/explain", params=query).json()
        assert reply["match"] == "exact"
        assert reply["runners_up"][0]["verdict"] in ("tie", "slower", "faster")
        assert reply["ties"] == sum(r["verdict"] == "tie" for r in reply["runners_up"])
        miss = api.get("/explain", params={**query, "device_class": XEON}).json()
        assert (miss["match"], miss["config"]) == ("miss", None)
        assert [c["device_class"] for c in miss["others"]] == [ZEN3]

    def test_the_client(self, api: httpx.Client, store: RecordStore, ids: Seeded) -> None:
        with Client(str(api.base_url).removesuffix("/api/v1/")) as client:
            found, miss = client.best_batch([ids.matmul.key, "0" * 64], TARGET, ZEN3)
            assert (found.match, found.tuned, miss.hit) == ("exact", True, False)
            assert client.best(ids.matmul.key, TARGET, ZEN3) == found
            store.releases.create("1.0", workloads=[ids.conv.key])
            store.releases.approve("1.0", "ada")
            assert not client.best(ids.matmul.key, TARGET, ZEN3, release="1.0").hit
            assert client.best(ids.conv.key, TARGET, ZEN3, release="1.0").tuned
            assert len(list(client.records(workload=ids.conv.key))) == len(list(store.trials.all(1))) // 2 + (
                len(list(store.trials.all(4))) // 2
            )
            assert [w["name"] for w in client.workloads()] == [w.name for w in store.workloads.page()]
            assert client.cancel_run(ids.running).state == "interrupted"
            assert client.run(ids.running).ended


class TestRecords:
    def test_filters_and_pages(self, api: httpx.Client, ids: Seeded) -> None:
        query = {"workload": ids.softmax.name, "status": "failed", "limit": 5}
        found, after, pages = [], "", 0
        while True:
            page = api.get("/records", params={**query, **({"after": after} if after else {})}).json()
            found += page["trials"]
            after, pages = page["next"], pages + 1
            if after is None:
                break
        assert pages > 2
        assert {t["workload_key"] for t in found} == {ids.softmax.key}
        assert {t["status"] for t in found} == {"failed"}
        assert len({t["id"] for t in found}) == len(found) >= 12

    @pytest.mark.parametrize(
        "query", [{"after": "x"}, {"target": "warp-drive"}, {"limit": 0}, {"since": "yesterday"}, {"status": "odd"}]
    )
    def test_bad_questions(self, api: httpx.Client, query: dict[str, str]) -> None:
        assert api.get("/records", params=query).status_code == 400


class TestReleases:
    def test_from_making_to_another_store(self, api: httpx.Client, store: RecordStore, ids: Seeded) -> None:
        made = api.post("/releases", json={"name": "1.0", "note": "n"})
        assert (made.status_code, made.json()["entries"], made.json()["approved_at"]) == (201, 4, None)
        assert api.post("/releases", json={"name": "1.0"}).status_code == 400
        shown = api.get("/releases/1.0")
        assert len(shown.json()["configs"]) == 4, "three configs and a family"
        headers = {"If-None-Match": shown.headers["etag"]}
        assert api.get("/releases/1.0", headers=headers).status_code == 304
        lookup = {"target": TARGET, "device_class": ZEN3, "lookups": [{"workload": ids.matmul.key}], "release": "1.0"}
        assert "not approved" in api.post("/best/batch", json=lookup).json()["error"]["message"]
        assert api.post("/releases/1.0/approve").json()["approved_at"] is not None
        assert api.post("/best/batch", json=lookup).json()["answers"][0]["match"] == "exact"
        file = api.get("/releases/1.0/file").json()
        store.releases.create("1.1", workloads=[ids.matmul.key])
        diff = api.get("/releases/1.1/diff", params={"since": "1.0"}).json()
        assert (len(diff["removed"]), diff["same"]) == (3, 1)
        assert [r["name"] for r in api.get("/releases").json()["releases"]][:2] == ["1.1", "1.0"]
        with RecordStore.open(f"{store.address}.other", create=True) as other, running_app(other) as address:
            taken = patient_http.post(f"{address}/api/v1/releases/import", json=file)
            assert (taken.status_code, taken.json()["digest"]) == (201, file["digest"])
            file["entries"][0]["cost"] = 1e-9
            file["name"] = "2.0"
            assert patient_http.post(f"{address}/api/v1/releases/import", json=file).status_code == 400


class TestFarm:
    def test_device_events(self, api: httpx.Client, store: RecordStore) -> None:
        event = {"device": "rack1-01/0", "kind": "check_failed", "message": "slow"}
        made = api.post("/device-events", json=event)
        assert (made.status_code, made.json()["kind"]) == (201, "check_failed")
        assert api.get("/device-events", params={"device": "rack1-01/0"}).json()["events"] == [made.json()]
        assert api.get("/device-events", params={"limit": 1}).json()["events"] == [made.json()]
        assert api.post("/device-events", json={**event, "device": "none"}).status_code == 404
        assert api.post("/device-events", json={**event, "kind": "odd"}).status_code == 400
        suspects = api.get("/records", params={"suspect": True, "device": "rack1-01/0"}).json()
        assert all(t["suspect"] for t in suspects["trials"])

    def test_leases(self, store: RecordStore, ids: Seeded) -> None:
        with running_app(store) as address:
            assert "no tracker" in patient_http.get(f"{address}/api/v1/leases").json()["problem"]

    def test_benchmarks(self, api: httpx.Client, store: RecordStore, ids: Seeded) -> None:
        run = store.benches.start(NewBenchRun(suite="gemm", spec={}, devices="cpu", toolchain={}))
        target = store.targets.page()[0].id
        new = [
            NewBenchResult(kernel="k", target_id=target, device_id=ids.devices[0], samples=(float(i + 1),))
            for i in range(3)
        ]
        store.benches.add_results(run.id, new)
        store.benches.end(run.id, RunState.FINISHED)
        assert api.get("/benchmarks").json()["runs"][0]["suite"] == "gemm"
        assert api.get(f"/benchmarks/{run.id}").json()["results"] == 3
        page = api.get(f"/benchmarks/{run.id}/results", params={"limit": 2}).json()
        rest = api.get(f"/benchmarks/{run.id}/results", params={"after": page["next"]}).json()
        assert [r["cost_s"] for r in page["results"] + rest["results"]] == [1.0, 2.0, 3.0]
        series = api.get("/benchmark-series", params={"kernel": "k", "device": "rack1-01/0"}).json()
        assert len(series["results"]) == 3
        assert api.get("/benchmarks/99/results").status_code == 404

    def test_metrics(self, api: httpx.Client) -> None:
        reply = api.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain")
        assert "tunefarm_run_trials" in reply.text


class TestRuns:
    def test_begun_and_gone_on_with(self, store: RecordStore, ids: Seeded) -> None:
        launcher = FakeLauncher()
        with running_app(store, launcher=launcher) as address, Client(address, timeout_s=60) as client:
            run = client.start_run(["matmul:8,8,8"], key="cpu", target=TARGET, trials=3)
            assert (run.state, run.budget, launcher.started) == ("queued", 3, [(run.id, "cpu")])
            assert "--key cpu" in store.runs.get(run.id).command
            assert client.cancel_run(run.id).state == "interrupted"
            assert client.resume_run(run.id).state == "queued"
            store.quotas.put(Quota(user=store.runs.get(run.id).user, runs=0))
            client.cancel_run(run.id)
            with pytest.raises(TunefarmError, match="the quota is 0 at the same time"):
                client.resume_run(run.id)
            store.quotas.remove(store.runs.get(run.id).user)
            assert client.resume_run(run.id).state == "queued"
            assert launcher.started[1:] == 2 * [(run.id, "cpu")]
            url = f"{address}/api/v1/runs"
            assert patient_http.post(f"{url}/{run.id}/resume").status_code == 409
            for body in (
                {"workloads": []},
                {"workloads": ["matmul:8,8,8"]},
                {"workloads": ["mine.py"], "key": "cpu", "target": TARGET},
                {"workloads": ["matmul:8,8,8"], "key": "((", "target": TARGET},
                {"workloads": ["matmul:8,8,8"], "key": "cpu", "target": "warp-drive"},
                {"workloads": ["matmul:8,8,8"], "key": "cpu", "target": TARGET, "strategy": "luck"},
            ):
                assert patient_http.post(url, json=body).status_code == 400, body
            assert len(launcher.started) == 3

    def test_a_family(self, store: RecordStore, ids: Seeded) -> None:
        with running_app(store, launcher=FakeLauncher()) as address, Client(address, timeout_s=60) as client:
            asked = {"key": "cpu", "target": TARGET, "shapes": ["M=1,4"], "traffic": "M,count\n4,3\n1,1\n"}
            run = client.start_run(["dense:M,8,16", "matmul:8,8,8"], portfolio=2, **asked)
            kept = store.runs.get(run.id)
            assert [task.workload.name for task in kept.tasks] == [
                "matmul:8,8,8:float32", "dense:1,8,16:float32", "dense:4,8,16:float32"
            ]  # fmt: skip
            assert "dense:M,8,16:float32 --shapes M=1,4 --portfolio 2" in kept.command
            assert run.budget == 3 * 21
            [family] = recorded_job(kept.options["workloads"]).families
            assert (family.sizes.weights, family.portfolio) == ((0.25, 0.75), 2)
            place = {"workloads": ["dense:M,8,16"], "key": "cpu", "target": TARGET}
            for more, message in (
                ({}, "no sizes to be tuned for"),
                ({"shapes": ["M=1"], "traffic": "M,count\n2,1\n"}, "traffic for M=2"),
                ({"shapes": ["M=1", "M=2"]}, "given sizes twice"),
                ({"shapes": ["M=0"]}, "at least 1"),
                ({"shapes": ["M=1,2", "N=1"]}, "sizes for N, which"),
                ({"shapes": ["M=1"], "portfolio": 0}, "portfolio"),
                ({"workloads": ["matmul:8,8,8"], "traffic": "M,count\n1,1\n"}, "traffic goes with"),
            ):
                refused = patient_http.post(f"{address}/api/v1/runs", json={**place, **more})
                assert (refused.status_code, message in refused.text) == (400, True), refused.text

    def test_an_app_that_starts_none(self, api: httpx.Client) -> None:
        reply = api.post("/runs", json={"workloads": ["matmul:8,8,8"]})
        assert (reply.status_code, reply.json()["error"]["kind"]) == (409, "no_launcher")


class TestRoles:
    def test_every_change_needs_a_role(self, store: RecordStore) -> None:
        open_to_readers = {"/api/v1/best/batch"}
        for route in create_app(store).routes:
            if isinstance(route, APIRoute) and route.methods - {"GET", "HEAD"}:
                needed = [getattr(d.call, "needed_role", None) for d in route.dependant.dependencies]
                assert any(needed) or route.path in open_to_readers, route.path

    def test_what_each_may_do(self, store: RecordStore, ids: Seeded) -> None:
        secrets = {role: store.tokens.new(str(role), role)[1] for role in Role}
        with running_app(store, open_role=None) as address:

            def status(role: Role, method: str, path: str, body: object = None) -> int:
                headers = {"Authorization": f"Bearer {secrets[role]}"}
                return patient_http.request(method, f"{address}/api/v1{path}", headers=headers, json=body).status_code

            assert patient_http.get(f"{address}/api/v1/runs").status_code == 401
            assert [status(role, "GET", "/runs") for role in Role] == [200, 200, 200]
            release = [status(role, "POST", "/releases", {"name": f"r-{role}"}) for role in Role]
            assert release == [403, 201, 201]
            assert [status(role, "POST", "/releases/r-tune/approve") for role in Role] == [403, 403, 200]
            assert store.releases.get("r-tune").created_by == "tune"
            assert store.releases.get("r-tune").approved_by == "admin"

    def test_a_revoked_token_opens_nothing(self, store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("webui.access.REMEMBER_S", 0.0)
        _, secret = store.tokens.new("ci", Role.READ)
        with running_app(store, open_role=None) as address:
            headers = {"Authorization": f"Bearer {secret}"}
            assert patient_http.get(f"{address}/api/v1/runs", headers=headers).status_code == 200
            store.tokens.revoke("ci")
            assert patient_http.get(f"{address}/api/v1/runs", headers=headers).status_code == 401

    def test_guessing_is_slowed_down(self, store: RecordStore) -> None:
        with running_app(store, open_role=None) as address:
            wrong = {"Authorization": "Bearer guess"}
            replies = [patient_http.get(f"{address}/api/v1/runs", headers=wrong) for _ in range(11)]
            assert [r.status_code for r in replies] == [401] * 10 + [429]
            assert 0 < int(replies[-1].headers["retry-after"]) <= 60
            assert replies[-1].json()["error"]["kind"] == "too_many_failures"

    def test_the_limit_ends(self) -> None:
        now = 0.0
        limit = FailureLimit(2, 60, lambda: now)
        limit.failed("a")
        assert limit.wait_s("a") == 0
        now = 10.0
        limit.failed("a")
        assert (limit.wait_s("a"), limit.wait_s("b")) == (50, 0)
        now = 61.0
        assert limit.wait_s("a") == 0

    def test_a_page_of_another_site_changes_nothing(self, api: httpx.Client) -> None:
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            reply = api.post("/releases", json={"name": "x"}, headers=headers)
            assert (reply.status_code, reply.json()["error"]["kind"]) == (403, "forbidden")
        host = f"{api.base_url.host}:{api.base_url.port}"
        own = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert api.post("/releases", json={"name": "x"}, headers=own).status_code == 201
