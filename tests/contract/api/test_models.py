"""Models over REST: registered, sent, tuned; all configs in one request; times and events; nobody else's are seen."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.tir.text.print_func import workload_key
from tests.kit import patient_http
from tests.kit.records.seed import TARGET, ZEN3, FakeTracker, Seeded
from tests.kit.records.seed_models import NEW, OLD
from tests.kit.web import FakeLauncher, running_app
from tunefarm.client import Client
from tuner.records.errors import RecordNotFound
from tuner.records.farm.model_farm import Role
from tuner.records.model_store.facts import ANYONE
from tuner.records.store import RecordStore
from tuner.workloads import WorkloadSpec

FILE = b"weights " * 100
DIGEST = hashlib.sha256(FILE).hexdigest()
FUNC = WorkloadSpec.parse("matmul:16,16,16").prim_func()


@pytest.fixture
def launcher() -> FakeLauncher:
    return FakeLauncher()


@pytest.fixture
def store(seeded_store: RecordStore) -> RecordStore:
    return seeded_store


@pytest.fixture
def address(store: RecordStore, launcher: FakeLauncher) -> Iterator[str]:
    with running_app(store, FakeTracker(), open_role=None, launcher=launcher) as running:
        yield running


@pytest.fixture
def people(store: RecordStore, address: str) -> Iterator[dict[str, httpx.Client]]:
    """Clients of two who may tune, and of one who may read."""
    roles = {"ada": Role.TUNE, "bob": Role.TUNE, "eve": Role.READ}
    found = {}
    for name, role in roles.items():
        _, secret = store.tokens.new(name, role)
        headers = {"Authorization": f"Bearer {secret}"}
        found[name] = httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=60)
    yield found
    for client in found.values():
        client.close()


def body(**changed: object) -> dict[str, object]:
    task = {"function": FUNC.script(), "names": ["matmul"], "calls": 3}
    graph = [{"name": "matmul", "task": 0}, {"name": "relu", "inputs": [0]}]
    return {
        "name": "net", "digest": DIGEST, "file_digest": DIGEST, "file_bytes": len(FILE), "tasks": [task],
        "graph": graph, **changed,
    }  # fmt: skip


def test_a_seeded_model_as_a_build_job_sees_it(address: str, people: dict[str, httpx.Client], ids: Seeded) -> None:
    eve, path = people["eve"], f"/models/{ids.model}"
    assert [model["name"] for model in eve.get("/models").json()["models"]] == ["resnet18"]
    assert [v["digest"] for v in eve.get(f"{path}/versions").json()["versions"]] == [NEW, OLD]
    version = eve.get(f"{path}/versions/dddd").json()
    assert (version["runs"], len(version["tasks"])) == ([ids.finished], 4)
    assert len(eve.get(f"{path}/versions/dddd/graph").json()["calls"]) == 29
    place = {"target": TARGET, "device_class": ZEN3}
    covered = eve.get(f"{path}/coverage", params=place).json()
    assert [kernel["config"] for kernel in covered["kernels"]] == ["hit", "hit", "untuned", "untuned"]
    assert covered["gain_s"] > 0
    assert 0.5 < covered["tuned_share"] < 1
    times = eve.get(f"{path}/times", params={"device_class": ZEN3, "limit": 10}).json()
    assert len(times["times"]) == 10
    older = eve.get(f"{path}/times", params={"device_class": ZEN3, "before": times["next"]}).json()
    assert (len(older["times"]), older["next"]) == (5, None)
    profile = eve.get(f"{path}/times/{times['times'][0]['id']}/profile").json()["kernels"]
    assert profile[0]["name"] == "fused_conv2d_add_relu"

    with Client(address, token=eve.headers["Authorization"].removeprefix("Bearer ")) as client:
        [model] = client.models()
        configs = client.model_configs(model.id, TARGET, ZEN3)
        assert [reply.match for reply in configs.values()] == ["exact", "exact", "miss", "miss"]
        sent = client._http.build_request("GET", "/api/v1/health")  # the second answer is a 304
        assert client.model_configs(model.id, TARGET, ZEN3) == configs
        assert sent.url.path == "/api/v1/health"
    first = eve.get(f"{path}/configs", params=place)
    assert eve.get(f"{path}/configs", params=place, headers={"If-None-Match": first.headers["etag"]}).status_code == 304


def test_a_model_is_registered_and_its_file_sent_in_pieces(people: dict[str, httpx.Client]) -> None:
    ada = people["ada"]
    made = ada.post("/models", json=body()).json()
    assert (made["owner"], made["readers"], made["latest"]) == ("ada", [], DIGEST)
    path = f"/models/{made['id']}/versions/{DIGEST}"
    [task] = ada.get(path).json()["tasks"]
    assert (task["workload_key"], task["calls"]) == (workload_key(FUNC), 3)
    assert ada.get(f"{path}/file").status_code == 404
    assert ada.post(f"{path}/file", content=FILE[:300]).json()["kept_bytes"] == 300
    assert ada.post(f"{path}/file", content=FILE[:300]).status_code == 400
    assert ada.post(f"{path}/file", params={"start": 300}, content=FILE[300:]).json()["kept_bytes"] == len(FILE)
    assert ada.get(f"{path}/file").content == FILE
    time = {"version": DIGEST, "device": "ci-1", "device_class": "zen", "target": TARGET, "samples_s": [2.0, 1.0]}
    kernels = [{"name": "matmul", "calls": 3, "seconds_s": 0.9}]
    kept = ada.post(f"/models/{made['id']}/times", json={**time, "kernels": kernels}).json()
    assert (kept["cost_s"], kept["version"]) == (1.5, DIGEST)
    assert ada.get(f"/models/{made['id']}/times/{kept['id']}/profile").json()["kernels"][0]["seconds_s"] == 0.9
    for wrong in (
        body(digest="12"), body(tasks=[{"function": "def", "names": ["x"], "calls": 1}]), body(more=1),
        body(graph=[{"name": "x", "task": 7}]), body(name="a b"),
    ):  # fmt: skip
        assert ada.post("/models", json=wrong).status_code == 400


def test_nobody_elses_model_shows_in_any_answer(people: dict[str, httpx.Client], store: RecordStore) -> None:
    ada, bob, eve = people["ada"], people["bob"], people["eve"]
    mine = ada.post("/models", json=body()).json()
    path = f"/models/{mine['id']}"
    ada.post(f"{path}/versions/{DIGEST}/file", content=FILE)
    # the same file registered by another: nothing says that it is here
    theirs = bob.post("/models", json=body()).json()
    assert bob.get(f"/models/{theirs['id']}/versions/{DIGEST}").json()["kept_bytes"] == 0
    gone = bob.get("/models/999").json()["error"]
    time = {"version": DIGEST, "device": "x", "device_class": "zen", "target": TARGET, "samples_s": [1.0]}
    place = {"target": TARGET, "device_class": ZEN3}
    answers = [
        bob.get(path), bob.get(f"{path}/versions"), bob.get(f"{path}/versions/{DIGEST}"),
        bob.get(f"{path}/versions/{DIGEST}/file"), bob.get(f"{path}/versions/{DIGEST}/graph"),
        bob.get(f"{path}/times"), bob.get(f"{path}/times/1/profile"), bob.get(f"{path}/coverage", params=place),
        bob.get(f"{path}/configs", params=place), bob.get(f"{path}/events"),
        bob.post(f"{path}/times", json=time), bob.post(f"{path}/readers", json={"readers": ["bob"]}),
        bob.post(f"{path}/remove"), bob.post(f"{path}/tune", json={"key": "cpu"}),
        bob.post(f"{path}/versions/{DIGEST}/file", content=FILE),
    ]  # fmt: skip
    for answer in answers:
        assert answer.status_code == 404, answer.request.url
        assert answer.json()["error"] == {**gone, "message": gone["message"].replace("999", str(mine["id"]))}
    assert mine["id"] not in [model["id"] for model in bob.get("/models").json()["models"]]
    ada.post(f"{path}/readers", json={"readers": ["eve"]})
    assert eve.get(f"{path}/versions/{DIGEST}/file").content == FILE
    assert eve.post(f"{path}/remove").status_code == 403
    ada.post(f"{path}/remove")
    assert eve.get(path).status_code == 404
    assert [model.owner for model in store.models.page(viewer=ANYONE)] == ["bob", ""]


def test_a_model_is_tuned_from_the_store(
    people: dict[str, httpx.Client], launcher: FakeLauncher, store: RecordStore
) -> None:
    made = people["ada"].post("/models", json=body()).json()
    run = people["ada"].post(f"/models/{made['id']}/tune", json={"key": "cpu", "trials": 3}).json()
    assert (run["state"], run["budget"], launcher.started) == ("queued", 3, [(run["id"], "cpu")])
    assert "tunefarm models tune net --trials 3" in run["command"]
    assert people["ada"].get(f"/models/{made['id']}/versions/{DIGEST}").json()["runs"] == [run["id"]]
    [record] = store.runs.get(run["id"]).options["workloads"]
    assert (record["workload"], record["weight"]) == (workload_key(FUNC), 3)


def test_a_model_is_profiled_once_the_store_has_its_file(
    people: dict[str, httpx.Client], launcher: FakeLauncher, store: RecordStore
) -> None:
    ada, eve = people["ada"], people["eve"]
    made = ada.post("/models", json=body()).json()["id"]
    asked = {"key": "cpu"}
    refused = ada.post(f"/models/{made}/profile", json=asked)
    assert "does not hold the file" in refused.json()["error"]["message"]
    assert ada.post(f"/models/{made}/versions/{DIGEST[:8]}/file", content=FILE).status_code == 200
    assert eve.post(f"/models/{made}/profile", json=asked).status_code == 403
    assert people["bob"].post(f"/models/{made}/profile", json=asked).status_code == 404
    assert "no device" in ada.post(f"/models/{made}/profile", json={"key": "none"}).json()["error"]["message"]
    job = ada.post(f"/models/{made}/profile", json=asked)
    assert (job.status_code, job.json()["state"], job.json()["asked_by"]) == (202, "running", "ada")
    assert launcher.profiled == [(job.json()["id"], "cpu")]
    store.models.end_job(job.json()["id"], message="the device was lost")
    store.models.end_job(job.json()["id"], 1)  # the first end counts
    [told] = ada.get(f"/models/{made}/profiles").json()["jobs"]
    assert (told["state"], told["message"], told["time"]) == ("failed", "the device was lost", None)
    assert ada.post(f"/models/{made}/remove").status_code == 200
    other = body(form="pt2", file_digest=DIGEST)
    made = ada.post("/models", json=other).json()["id"]
    assert "may run code" in ada.post(f"/models/{made}/profile", json=asked).json()["error"]["message"]


def test_the_client_has_every_route_of_models(
    address: str, people: dict[str, httpx.Client], launcher: FakeLauncher, ids: Seeded, store: RecordStore,
    tmp_path: Path,
) -> None:
    ada, asked = people["ada"], list[str]()
    file = tmp_path / "square.onnx"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 32]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    with Client(address, token=ada.headers["Authorization"].removeprefix("Bearer "), timeout_s=60) as client:
        client._http.event_hooks["request"].append(lambda sent: asked.append(f"{sent.method} {sent.url.path}"))
        mine = client.register_model(str(file), upload=True)
        assert client.model(mine.id) == mine
        assert {model.id for model in client.models()} == {mine.id, ids.model}
        [version] = client.model_versions(mine.id)
        assert (version.digest, version.kept_bytes, version.sizes) == (mine.latest, file.stat().st_size, {})
        assert b"".join(client.model_file(mine.id, version.digest)) == file.read_bytes()
        assert [task.calls for task in client.model_tasks(ids.model, NEW)] == [16, 2, 1, 1]
        assert client.model_graph(ids.model, NEW)[1].inputs == (0,)
        assert len(client.model_configs(ids.model, TARGET, ZEN3)) == 4
        covered = client.model_coverage(ids.model, ZEN3, TARGET)
        assert [kernel.config for kernel in covered.kernels] == ["hit", "hit", "untuned", "untuned"]
        times = list(client.model_times(ids.model, ZEN3))
        assert [time.id for time in times] == sorted((time.id for time in times), reverse=True)
        assert client.model_profile(ids.model, times[0].id)[0].name == "fused_conv2d_add_relu"
        where = {"device": "box", "device_class": ZEN3, "target": TARGET}
        added = client.add_model_time(mine.id, version.digest, [1.0, 2.0], **where)
        kind, event = next(client.model_events(mine.id, after=0))
        assert (kind, event["id"]) == ("time", added["id"])
        run = client.tune_model(mine.id, key="cpu", trials=3)
        job = client.profile_model(mine.id, "cpu")
        assert (launcher.started, launcher.profiled) == ([(run.id, "cpu")], [(job.id, "cpu")])
        store.models.end_job(job.id, added["id"])
        assert [(job.ended, job.time) for job in client.profile_jobs(mine.id)] == [(True, added["id"])]
        assert client.set_model_readers(mine.id, ["eve"]).readers == ("eve",)
        with pytest.raises(RecordNotFound):
            next(client.model_file(999, version.digest))
        assert client.remove_model(mine.id).readers == ("eve",)
    routes = ada.get("/openapi.json").json()["paths"]
    wanted = {f"{verb.upper()} {path}" for path, verbs in routes.items() if "/models" in path for verb in verbs}
    templates = {route: re.compile(re.sub(r"\{\w+\}", "[^/]+", route)) for route in wanted}
    assert {route for route in wanted if not any(templates[route].fullmatch(one) for one in asked)} == set()


def test_what_happens_to_a_model_is_told(people: dict[str, httpx.Client], ids: Seeded, store: RecordStore) -> None:
    ada = people["ada"]
    made = ada.post("/models", json=body()).json()
    time = {"version": DIGEST, "device": "ci-1", "device_class": "zen", "target": TARGET, "samples_s": [1.0]}
    first = ada.post(f"/models/{made['id']}/times", json=time).json()
    told: dict[str, dict[str, object]] = {}
    with ada.stream("GET", f"/models/{made['id']}/events", params={"after": 0}) as stream:
        name = ""
        for line in stream.iter_lines():
            kind, _, rest = line.partition(": ")
            if kind == "event":
                name = rest
            elif kind == "data":
                told[name] = json.loads(rest)
                if name == "time":
                    ada.post("/models", json=body(digest="e" * 64))
                if name in ("version", "problem"):
                    break
    assert told["time"]["id"] == first["id"]
    assert told["version"]["digest"] == "e" * 64
    assert patient_http.get(f"{ada.base_url}health").status_code == 401
