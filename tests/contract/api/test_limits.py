"""Tokens that are held to a part of the app, quotas and boxes over the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from fastapi.routing import APIRoute

from tests.kit.records.seed import TARGET, ZEN3, Seeded
from tests.kit.web import running_app
from tuner.records.farm.model_farm import Role
from tuner.records.farm.scopes import Area, Scopes
from tuner.records.store import RecordStore
from webui.app import create_app
from webui.scopes import area_of

Ask = Callable[..., httpx.Response]


@pytest.fixture
def store(seeded_store: RecordStore) -> RecordStore:
    return seeded_store


@pytest.fixture
def ask(store: RecordStore) -> Iterator[Callable[..., Ask]]:
    """Makes a token, and gives what asks with it."""
    with running_app(store, open_role=None) as address, httpx.Client(base_url=address, timeout=60) as client:

        def holder(name: str, role: Role = Role.READ, scopes: Scopes | None = None) -> Ask:
            _, secret = store.tokens.new(name, role, scopes=scopes or Scopes())
            headers = {"Authorization": f"Bearer {secret}"}
            return lambda method, path, **more: client.request(method, path, headers=headers, **more)

        yield holder


def test_every_route_belongs_to_an_area(store: RecordStore) -> None:
    for route in create_app(store).routes:
        if isinstance(route, APIRoute):
            area_of(route.path.replace("{", "").replace("}", ""))  # raises for none


def test_a_token_of_an_area_opens_that_alone(ask: Callable[..., Ask]) -> None:
    scraper = ask("scraper", scopes=Scopes((Area.METRICS,)))
    asked = ["/metrics", "/api/v1/metrics", "/api/v1/health", "/", "/api/v1/runs", "/api/v1/releases"]
    assert [scraper("GET", path).status_code for path in asked] == [200, 200, 200, 403, 403, 403]
    assert "this token is for metrics" in scraper("GET", "/api/v1/runs").json()["error"]["message"]


def test_a_token_of_a_release_builds_with_it_and_nothing_else(
    ask: Callable[..., Ask], store: RecordStore, ids: Seeded
) -> None:
    for name in ("1.0", "2.0"):
        store.releases.create(name, workloads=[ids.matmul.key])
        store.releases.approve(name, "ada")
    ci = ask("ci", scopes=Scopes(releases=("1.0",)))
    body = {"target": TARGET, "device_class": ZEN3, "lookups": [{"workload": ids.matmul.key}]}
    replies = [
        ci("POST", "/api/v1/best/batch", json={**body, "release": release}).status_code
        for release in ("1.0", "2.0", None)
    ]
    assert replies == [200, 403, 403]
    paths = {
        "/api/v1/releases/1.0": 200,
        "/api/v1/releases/2.0": 403,
        "/api/v1/releases/1.0/diff?since=2.0": 403,
        "/api/v1/releases": 403,
        f"/api/v1/best?workload={ids.matmul.key}&target={TARGET}": 403,
        "/api/v1/runs": 403,
        "/api/v1/families/best?family=x&target=llvm&release=2.0": 403,
        "/": 403,
    }
    assert {path: ci("GET", path).status_code for path in paths} == paths


def test_a_token_of_a_model_sees_no_other(ask: Callable[..., Ask]) -> None:
    new = {"digest": "ab" * 32, "file_digest": "cd" * 32, "form": "onnx", "sizes": {}, "file_bytes": 1, "readers": []}
    new |= {"tasks": [], "graph": []}
    phone = ask("phone", Role.TUNE, Scopes(models=("resnet",)))
    other = ask("other", Role.TUNE)
    tasks = {"function": _FUNCTION, "names": ["copy"], "calls": 1}
    assert other("POST", "/api/v1/models", json={**new, "name": "bert", "readers": ["*"], "tasks": [tasks]}).is_success
    assert phone("POST", "/api/v1/models", json={**new, "name": "bert", "tasks": [tasks]}).status_code == 403
    mine = phone("POST", "/api/v1/models", json={**new, "name": "resnet", "tasks": [tasks]})
    assert mine.is_success, mine.text
    assert [model["name"] for model in phone("GET", "/api/v1/models").json()["models"]] == ["resnet"]
    assert phone("GET", "/api/v1/models/1").status_code == 404
    for change in ("profile", "tune"):
        assert phone("POST", f"/api/v1/models/1/{change}", json={}).status_code == 404
    assert phone("GET", "/api/v1/runs").status_code == 403


_FUNCTION = """\
@T.prim_func
def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.remap("S", [i])
            b[v] = a[v]
"""


def test_quotas_are_set_by_admins_and_seen_by_their_users(ask: Callable[..., Ask]) -> None:
    admin, ann, bob = ask("root", Role.ADMIN), ask("ann", Role.TUNE), ask("bob", Role.TUNE)
    assert ann("POST", "/api/v1/quotas/ann", json={"runs": 9}).status_code == 403
    assert admin("POST", "/api/v1/quotas/ann", json={"runs": 2, "trials": 100}).json()["set_by"] == "root"
    assert ann("GET", "/api/v1/quotas/ann").json()["taken_runs"] == 0
    assert bob("GET", "/api/v1/quotas/ann").status_code == 403
    assert bob("GET", "/api/v1/quotas/bob").status_code == 404
    assert bob("GET", "/api/v1/quotas").status_code == 403
    assert [each["user"] for each in admin("GET", "/api/v1/quotas").json()["quotas"]] == ["ann"]
    for wrong in ({}, {"runs": -1}, {"trials": 1e99}, {"runs": 1, "days": 0}, {"more": 1}):
        assert admin("POST", "/api/v1/quotas/ann", json=wrong).status_code == 400, wrong
    assert admin("POST", "/api/v1/quotas/ann/remove").json() == {"quotas": []}


def test_boxes_are_renamed_and_removed_by_admins(ask: Callable[..., Ask], store: RecordStore) -> None:
    name = store.devices.page()[0].name
    admin, ann = ask("root", Role.ADMIN), ask("ann", Role.TUNE)
    box = name.partition("/")[0]
    assert ann("POST", f"/api/v1/boxes/{box}/rename", json={"name": "new"}).status_code == 403
    renamed = admin("POST", f"/api/v1/boxes/{box}/rename", json={"name": "new"})
    assert renamed.json()["devices"][0].startswith("new"), renamed.text
    assert admin("POST", "/api/v1/boxes/new/remove", json={"reason": "sold"}).is_success
    assert admin("POST", f"/api/v1/boxes/{box}/remove", json={}).status_code == 404
    kinds = [event["kind"] for event in admin("GET", "/api/v1/device-events").json()["events"]]
    assert {"renamed", "removed"} <= set(kinds)
