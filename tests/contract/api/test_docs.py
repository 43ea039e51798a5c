"""docs/rest-api.md names every route, event and error there is, and its examples run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import patient_http
from tests.kit.places import DOCS
from tests.kit.records.seed import TARGET, FakeTracker, Seeded
from tests.kit.web import FakeLauncher, running_app
from tuner.records.store import RecordStore
from webui.api import events
from webui.api.replies import _STATUS

DOC = (DOCS / "rest-api.md").read_text()


@pytest.fixture(scope="module")
def store(seeded_store_of_module: RecordStore) -> RecordStore:
    return seeded_store_of_module


@pytest.fixture(scope="module")
def address(store: RecordStore, ids: Seeded) -> Iterator[str]:
    with running_app(store, FakeTracker(), launcher=FakeLauncher()) as running:
        yield running


def test_every_route_and_parameter_is_named(address: str) -> None:
    paths = patient_http.get(f"{address}/api/v1/openapi.json").json()["paths"]
    for path, methods in paths.items():
        assert f"`{path}" in DOC, path
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                assert parameter["name"] in DOC or parameter["name"] == "last-event-id", (path, parameter["name"])


def test_every_event_is_named() -> None:
    sent = set(re.findall(r'event\("(\w+)"', Path(events.__file__).read_text()))
    section = DOC.partition("## Live events")[2].partition("\n## ")[0]
    assert sent == set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_error_is_named() -> None:
    for error, status in _STATUS:
        line = next(line for line in DOC.splitlines() if line.startswith(f"| {status} |"))
        assert f"`{error.kind}`" in line


def test_the_examples_run(address: str, ids: Seeded) -> None:
    commands = re.findall(r"^\$ (curl .*)$", DOC, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        words = shlex.split(command.replace("KEY", ids.matmul.key).replace("TARGET", TARGET))[1:]
        url = next(word for word in words if word.startswith("http")).replace("http://127.0.0.1:9180", address)
        pairs = [words[i + 1].partition("=") for i, word in enumerate(words) if word == "--data-urlencode"]
        query = {name: value for name, _, value in pairs}
        bodies = [json.loads(words[i + 1]) for i, word in enumerate(words) if word == "--json"]
        method = "POST" if bodies or "POST" in words else "GET"
        reply = patient_http.request(method, url, params=query or None, json=bodies[0] if bodies else None)
        assert reply.is_success, (command, reply.text)
