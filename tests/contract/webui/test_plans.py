"""No page and no route of the API reads a growing table from end to end: all are asked, and the database explains every
statement they make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.kit.records.plans import Plans
from tests.kit.records.seed import TARGET, ZEN3, FakeTracker, Seeded, seed
from tests.kit.web import running_app
from tuner.records.store import RecordStore
from webui.app import create_app

NO_STORE = {"/api/v1/openapi.json", "/docs", "/docs/{path:path}"}
CHANGES: dict[str, dict[str, Any]] = {
    "/api/v1/best/batch": {"target": TARGET, "lookups": [{"workload": "KEY"}, {"workload": "0" * 64}]},
    "/api/v1/device-events": {"device": "rack1-01/0", "kind": "check_failed", "message": ""},
    "/api/v1/models": {"name": "net", "digest": "a" * 64, "file_digest": "a" * 64},
    "/api/v1/models/{model_id}/readers": {"readers": ["*"]},
    "/api/v1/models/{model_id}/times": {
        "version": "d" * 64, "device": "rack1-01/0", "device_class": ZEN3, "target": TARGET, "samples_s": [1.0],
    },
    "/api/v1/releases": {"name": "made here"},
    "/api/v1/releases/{name}/approve": {},
    "/api/v1/runs/{run_id}/cancel": {},
}  # fmt: skip
"""Bodies for the routes that change something."""
NOT_ASKED = {
    "/api/v1/models/{model_id}/events", "/api/v1/models/{model_id}/remove", "/api/v1/models/{model_id}/tune",
    "/api/v1/releases/import", "/api/v1/runs", "/api/v1/runs/{run_id}/resume",
}  # fmt: skip
"""These start processes, take in a file, remove what others ask for, or do not end; the store's methods they call are
in `contract/records/`."""


def methods_and_paths(routes: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from methods_and_paths(inner.routes, prefix + route.include_context.prefix)
        elif path := getattr(route, "path", None):
            for method in getattr(route, "methods", None) or ():
                yield method, prefix + path


def gets(ids: Seeded, config: int) -> dict[str, list[str]]:
    """The queries to ask a path with; every path that is not here is asked without one."""
    lookup = {"workload": ids.matmul.key, "target": TARGET, "device_class": ZEN3}
    other = {**lookup, "device_class": "another"}
    key, series = ids.matmul.key, {"kernel": ids.matmul.name, "device": "rack1-01/0"}
    return {
        "/": ["", "filtered=1"],
        "/api/v1/best": [urlencode(lookup), urlencode(other), urlencode({**lookup, "workload": "0" * 64})],
        "/api/v1/best-configs": ["", f"workload={key}", "after=1", urlencode(lookup), "objective=energy"],
        "/api/v1/benchmark-series": [urlencode(series)],
        "/api/v1/benchmarks": ["", "before=9"],
        "/api/v1/device-events": ["", "before=99", "device=rack1-01/0"],
        "/api/v1/explain": [urlencode(lookup), urlencode(other)],
        "/api/v1/records": [
            "", "status=failed", "device=rack1-01/0", "suspect=true", f"workload={key}", urlencode({"target": TARGET}),
            f"run={ids.running}", "since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z", "device_class=x",
            "after=1.5",
        ],
        "/api/v1/families": ["", "before=9", "family=dense:M,8,8"],
        "/api/v1/families/best": [urlencode({"family": "dense:M,8,8", "target": TARGET})],
        "/api/v1/models": ["", "before=9"],
        "/api/v1/models/{model_id}/configs": [urlencode({"target": TARGET, "device_class": ZEN3})],
        "/api/v1/models/{model_id}/coverage": [urlencode({"target": TARGET, "device_class": ZEN3})],
        "/api/v1/models/{model_id}/times": ["", urlencode({"device_class": ZEN3, "version": "dd"})],
        "/api/v1/models/{model_id}/versions": ["", "before=9"],
        "/api/v1/releases": ["", "before=9"],
        "/api/v1/releases/{name}/diff": ["since=2026.10"],
        "/api/v1/runs": ["", "before=3"],
        "/api/v1/runs/{run_id}/curve": ["", f"workload={key}"],
        "/api/v1/runs/{run_id}/events": ["after=1"],
        "/api/v1/runs/{run_id}/trials": ["", "before=0", "after=5", "status=failed", "before=0&status=ok"],
        "/api/v1/workloads": ["", "after=1"],
        "/benchmarks": ["", "before=9"],
        "/benchmarks/series": [urlencode(series)],
        "/best": ["", "after=1", f"workload={key}", urlencode(lookup), "objective=energy"],
        "/compare": ["", f"a={ids.finished}", f"a={ids.finished}&b={ids.running}"],
        "/export/{table}.{form}": [f"run={ids.finished}"],
        "/models": ["", "before=9"],
        "/models/{model_id}": ["", urlencode({"device_class": ZEN3, "version": "cccc"})],
        "/models/{model_id}/compare": [urlencode({"a": "cccc", "b": "dddd", "class_a": ZEN3, "class_b": ZEN3})],
        "/releases": ["", "before=9"],
        "/releases/{name}/diff": ["old=2026.10"],
        "/runs": ["", "before=3"],
        "/runs/{run_id}": ["", "before=40", "status=failed"],
        "/runs/{run_id}/choices": ["", "task=1"],
        "/workloads": ["", "after=1"],
    }  # fmt: skip


def filled(path: str, ids: Seeded, config: int) -> list[str]:
    """The path with something in the place of each parameter."""
    if "{table}" in path:
        tables = ("runs", "trials", "best", "workloads", "devices")
        return [path.format(table=table, form="csv") for table in tables]
    known = {
        "run_id": ids.benchmark if "benchmark" in path else ids.finished,
        "trial_id": 1,
        "config_id": config,
        "key": ids.matmul.key,
        "name": "rack1-01/0" if "device" in path else "2026.11",
        "device_id": ids.devices[0],
        "family_id": 1,
        "model_id": ids.model,
        "digest": "d" * 64,
        "time_id": 1,
        "user": "ann",
        "box": "rack1-01",
    }
    missing = set(re.findall(r"\{(\w+)", path)) - known.keys()
    assert not missing, f"say here what {missing} of {path} may be"
    return [re.sub(r"\{(\w+)[^}]*\}", lambda found: str(known[found[1]]), path)]


def test_no_route_walks_a_growing_table(store: RecordStore) -> None:
    ids = seed(store)
    [config] = [c.id for c in store.best.page(workload=ids.matmul.key)][:1]
    tracker = FakeTracker()
    routes = sorted(set(methods_and_paths(create_app(store, tracker).routes)))
    queries = gets(ids, config)
    plans = Plans(store)
    assert len(routes) > 50, "the routes were not found"
    with running_app(store, tracker) as address, httpx.Client(base_url=address, timeout=60) as client:
        for method, path in routes:
            if path in NO_STORE or method == "HEAD" or (path in NOT_ASKED and (method == "POST" or "events" in path)):
                continue
            for place in filled(path, ids, config):
                for query in queries.get(path, [""]) if method == "GET" else [""]:
                    check(client, plans, method, f"{place}?{query}", CHANGES.get(path))
    assert plans.statements > 100
    assert not plans.scans, "\n".join(plans.scans)


def check(client: httpx.Client, plans: Plans, method: str, url: str, body: dict[str, Any] | None) -> None:
    before = len(plans.scans)
    with plans.watched():
        reply = client.get(url) if method == "GET" else client.post(url, json=body)
    if method == "GET":
        assert reply.status_code in (200, 404), (url, reply.text)
    plans.scans[before:] = [f"{method} {url}\n  {scan}" for scan in plans.scans[before:]]
