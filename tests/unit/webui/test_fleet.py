"""The fleet view: live, recorded, and a tracker that is away or slow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpc_server.errors import ConnectError
from rpc_server.wire.tracker_messages import FarmNumbers
from rpc_server.wire.tracker_records import DeviceInfo
from tests.kit.records.seed import FakeTracker
from tuner.records.model import NewDevice
from tuner.records.store import RecordStore
from webui import fleet as fleet_module
from webui.fleet import FleetWatch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore.open(tmp_path / "r.db", create=True) as opened:
        opened.devices.upsert(NewDevice(name="old", key="cpu", device_class="c1", fingerprint={"cpu_model": "A"}))
        opened.devices.upsert(NewDevice(name="old", key="cpu", device_class="c2", fingerprint={"cpu_model": "B"}))
        yield opened


def test_without_a_tracker_devices_are_the_recorded_ones(store: RecordStore) -> None:
    view = FleetWatch(store, None).view()
    assert (view.source, view.problem) == ("records", "")
    assert [(d.name, d.state, d.cpu, d.device_class) for d in view.devices] == [("old", "recorded", "B", "c2")]


def test_live_devices(store: RecordStore) -> None:
    fleet = FleetWatch(store, FakeTracker())
    view = fleet.view()
    assert (view.source, view.problem, view.up) == ("tracker", "", 2)
    first = view.devices[0]
    assert (first.state, first.user, first.cores, first.cpu) == ("leased", "ada", 2, "AMD EPYC 7763 64-Core Processor")
    assert first.busy_share == pytest.approx(6400 / 7200)
    fleet.close()


def test_many_lookers_ask_the_tracker_once(store: RecordStore) -> None:
    tracker = FakeTracker()
    fleet = FleetWatch(store, tracker)
    for _ in range(20):
        fleet.view()
    assert tracker.asked == 1
    fleet.close()


def test_a_tracker_that_is_away_is_said_so(store: RecordStore) -> None:
    tracker = FakeTracker()
    tracker.problem = ConnectError("no tracker answers at 127.0.0.1:9190")
    fleet = FleetWatch(store, tracker)
    view = fleet.view()
    assert (view.source, view.problem) == ("records", "no tracker answers at 127.0.0.1:9190")
    assert [d.name for d in view.devices] == ["old"]
    fleet.close()


class _SlowTracker:
    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.inner = FakeTracker()

    def devices(self) -> list[DeviceInfo]:
        self.let_go.wait(300)
        return self.inner.devices()

    def numbers(self) -> FarmNumbers:
        return self.inner.numbers()


def test_a_slow_tracker_does_not_hold_up_a_page(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "PATIENCE_S", 0.05)
    monkeypatch.setattr(fleet_module, "FRESH_S", 0.0)
    tracker = _SlowTracker()
    fleet = FleetWatch(store, tracker)
    assert "has not answered" in fleet.view().problem
    tracker.let_go.set()
    while (view := fleet.view()).problem:
        pass
    assert view.source == "tracker"
    tracker.let_go.clear()
    late = fleet.view()
    assert late.devices == view.devices
    assert "has not answered" in late.problem
    tracker.let_go.set()
    fleet.close()
