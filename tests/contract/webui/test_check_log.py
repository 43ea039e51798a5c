"""Health checks of the tracker in the records: what a device measured before a failed one is in doubt."""

from __future__ import annotations

from dataclasses import replace

from rpc_server.errors import ConnectError
from rpc_server.wire.tracker_records import CheckInfo, DeviceInfo
from tests.kit.records.seed import FakeTracker, Seeded
from tuner.records.farm.model_farm import DeviceEventKind
from tuner.records.store import RecordStore
from webui.check_log import CheckLog

DEVICE = "rack1-01/0"


class Tracker(FakeTracker):
    """One device, as a test says it is."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[str, object] = {}

    def devices(self) -> list[DeviceInfo]:
        return [replace(info, **self.changes) for info in super().devices() if info.id == DEVICE]  # type: ignore[arg-type]


def kinds(store: RecordStore) -> list[DeviceEventKind]:
    return [event.kind for event in store.devices.events(DEVICE)][::-1]


def test_a_check_is_written_once(seeded_store: RecordStore, ids: Seeded) -> None:
    tracker = Tracker()
    for log in (CheckLog(seeded_store, tracker), CheckLog(seeded_store, tracker)):
        log.look()
        log.look()
    assert kinds(seeded_store) == [DeviceEventKind.CHECK_PASSED]
    (event,) = seeded_store.devices.events(DEVICE)
    assert event.data == {"compute": 71.5, "memory": 19.2}


def test_a_failed_check_takes_the_best_configs_back(seeded_store: RecordStore, ids: Seeded) -> None:
    tracker = Tracker()
    best = seeded_store.best.look_up(ids.matmul.key, seeded_store.runs.get(ids.finished).tasks[0].target).config
    assert best is not None
    tracker.changes = {"state": "quarantined", "check": CheckInfo(passed=False, text="wrong sums", age_s=0.0)}
    log = CheckLog(seeded_store, tracker)
    log.look()
    assert kinds(seeded_store) == [DeviceEventKind.CHECK_FAILED, DeviceEventKind.QUARANTINED]
    held = seeded_store.best.look_up(ids.matmul.key, seeded_store.runs.get(ids.finished).tasks[0].target).config
    assert held is None or held.device != DEVICE
    tracker.changes = {"state": "ready", "check": CheckInfo(passed=True, text="", age_s=-60.0)}
    log.look()
    assert set(kinds(seeded_store)[2:]) == {DeviceEventKind.CHECK_PASSED, DeviceEventKind.RETURNED}


def test_devices_that_measured_nothing_are_left_out(store: RecordStore) -> None:
    tracker = Tracker()
    CheckLog(store, tracker).look()
    assert store.devices.events(DEVICE) == ()


def test_a_tracker_that_is_away_is_asked_again(seeded_store: RecordStore, ids: Seeded) -> None:
    tracker = Tracker()
    tracker.problem = ConnectError("no tracker answers")
    log = CheckLog(seeded_store, tracker, every_s=0.01)
    log.start()
    while tracker.asked < 3:
        assert log.is_alive()
    tracker.problem = None
    while not kinds(seeded_store):
        assert log.is_alive()
    log.stop()
    assert kinds(seeded_store) == [DeviceEventKind.CHECK_PASSED]
