"""The web app beside a real tracker and a real device box, which come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rpc_server.box.server import Server
from tests.kit import patient_http
from tests.kit.ports import free_port
from tests.kit.web import running_app
from tracker.server import Tracker
from tuner.records.store import RecordStore
from webui.serving.server import TrackerLink


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore.open(tmp_path / "records.db", create=True) as opened:
        yield opened


def _until(address: str, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        reply: dict[str, Any] = httpx.get(f"{address}/api/v1/devices", timeout=60).json()
        if done(reply):
            return reply
        time.sleep(0.2)
    raise AssertionError(f"still {reply}")


def test_devices_live_and_a_tracker_that_is_killed_and_comes_back(store: RecordStore) -> None:
    port = free_port()
    with Tracker(port=port, silent=True) as tracker:
        box = Server(port=0, tracker_addr=("127.0.0.1", port), key="cpu", name="box-1", silent=True)
        link = TrackerLink("127.0.0.1", port)
        try:
            with running_app(store, link) as address:
                live = _until(address, lambda r: bool(r["devices"]) and r["source"] == "tracker")
                device = live["devices"][0]
                assert (device["key"], device["box"], device["state"]) == ("cpu", "box-1", "ready")
                assert device["cpu"]
                assert device["device_class"]
                page = patient_http.get(address, headers={"Accept": "text/html"}).text
                assert device["name"] in page
                tracker.terminate()
                gone = _until(address, lambda r: bool(r["problem"]))
                assert patient_http.get(f"{address}/api/v1/health").json()["tracker"] == "away"
                assert str(port) in gone["problem"] or "not answered" in gone["problem"]
                with Tracker(port=port, port_end=port + 1, silent=True):
                    again = _until(address, lambda r: not r["problem"] and bool(r["devices"]))
                    assert again["devices"][0]["name"] == device["name"]
        finally:
            link.close()
            box.terminate()
