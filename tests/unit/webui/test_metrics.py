"""The metrics page: its format, what is on it with and without a tracker, and that all of it is documented."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from compiler.errors import TunefarmError
from rpc_server.wire.tracker_messages import FarmNumbers
from rpc_server.wire.tracker_records import CheckInfo, QueueNumbers, Scores
from tests.kit.places import DOCS
from tests.kit.records.seed import FakeTracker
from tuner.records.store import RecordStore
from webui.app import create_app
from webui.fleet import FleetDevice, FleetView
from webui.metrics import METRICS, exposition

PAGE = DOCS / "farm.md"
SAMPLE = re.compile(r'^[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? -?[0-9.e+-]+$')
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def device(**more: object) -> FleetDevice:
    known = {"name": "box1/0", "key": "cpu", "state": "ready", "reason": "", "box": "box1", "address": "b:1"}
    known |= {"device_class": "zen", "cpu": "zen", "cores": 4, "user": None, "busy_share": 0.25, "seen_at": NOW}
    return FleetDevice(**known | more)  # type: ignore[arg-type]


def view(*devices: FleetDevice, queues: tuple[QueueNumbers, ...] = ()) -> FleetView:
    return FleetView("tracker", devices, "", NOW, FarmNumbers(9.5, 1, 2, 3, {"granted": 7}, queues))


def test_every_metric_is_documented_with_its_kind() -> None:
    text = PAGE.read_text()
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.kind} |" in text, metric.name
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_only_documented_metrics_are_on_the_page_and_each_line_is_well_formed() -> None:
    check = CheckInfo(passed=True, text="fine", age_s=1.0, scores=Scores(16.0, 20.5))
    queue = QueueNumbers(expr='cpu "x\\y"', waiting=2, oldest_s=4.0, granted=3, waited_s=1.5)
    text = exposition(view(device(check=check), queues=(queue,)), [])
    known = {metric.name for metric in METRICS}
    for line in text.splitlines():
        if not line.startswith("#"):
            assert SAMPLE.match(line), line
            assert re.split(r"[{ ]", line)[0] in known
    assert set(re.findall(r"# TYPE (\S+)", text)) == known
    assert 'tunefarm_devices{key="cpu",state="ready"} 1\n' in text
    assert 'tunefarm_devices{key="cpu",state="gone"} 0\n' in text
    assert 'tunefarm_device_check_gigabytes_per_second{device="box1/0"} 20.5\n' in text
    assert r'tunefarm_grants_total{expr="cpu \"x\\y\""} 3' in text
    assert 'tunefarm_tracker_events_total{kind="granted"} 7\n' in text


def test_a_tracker_that_is_away_is_down_and_says_nothing_else() -> None:
    gone = FleetView("records", (device(state="recorded"),), "it is away", NOW)
    text = exposition(gone, [])
    assert "tunefarm_tracker_up 0\n" in text
    assert "tunefarm_devices" not in text
    assert "tunefarm_tracker_up" not in exposition(None, [])


class Away(FakeTracker):
    def devices(self):
        raise TunefarmError("away")


@pytest.mark.parametrize(("tracker", "up"), [(FakeTracker(), 1), (Away(), 0)])
def test_the_app_answers_with_the_page(tmp_path, tracker, up) -> None:
    with RecordStore.open(f"sqlite:///{tmp_path}/r.db", create=True) as store:
        reply = TestClient(create_app(store, tracker)).get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert f"tunefarm_tracker_up {up}\n" in reply.text
