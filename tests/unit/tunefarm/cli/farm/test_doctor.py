"""The doctor's findings, from what a box and a tracker answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rpc_server.machine.fingerprint import local_fingerprint
from rpc_server.machine.hours import Hours
from rpc_server.wire.messages import BoxStatus
from rpc_server.wire.tracker_messages import BoxHeartbeat
from tests.kit.farm.tracker_script import Script, hello
from tunefarm.cli.farm.examine import Diagnosis, Grade, encryption, judge_device, judge_status, noise

SOUND: dict[str, Any] = {
    "box": "box1",
    "key": "cpu",
    "version": "1.0",
    "sessions": (),
    "warm": 1,
    "uptime_s": 60.0,
    "crashes": 0,
    "time": 1000.0,
    "user": "nobody",
    "memory_limit": 8 << 30,
    "disk_free": 9 << 30,
}


def judged(governor: str = "performance", **more: Any) -> dict[str, Diagnosis]:
    fingerprint = {**local_fingerprint().to_builtins(), "governor": governor}
    status = BoxStatus(**{**SOUND, "fingerprint": fingerprint, **more})
    return {f.about: f for f in judge_status("box1:9091", status, "1.0", 1001.0)}


def test_a_sound_box_has_nothing_to_do() -> None:
    assert {f.level for f in judged().values()} == {Grade.OK}
    assert not any(f.todo for f in judged().values())


@pytest.mark.parametrize(
    ("more", "about", "level", "todo"),
    [
        ({"version": "0.9"}, "version", Grade.WRONG, "same version"),
        ({"time": 1060.0}, "clock", Grade.WARNING, "NTP"),
        ({"governor": "powersave"}, "governor", Grade.WARNING, "cpupower"),
        ({"memory_limit": None}, "memory", Grade.WARNING, "--memory-limit"),
        ({"memory_limit": 1 << 20}, "memory", Grade.WARNING, "--memory-limit"),
        ({"user": "root"}, "user", Grade.WARNING, "--user"),
        ({"limits_processes": False}, "processes", Grade.WARNING, "Delegate=pids"),
        ({"disk_free": 1 << 20}, "disk", Grade.WARNING, "TMPDIR"),
        ({"disk_executes": False}, "exec", Grade.WRONG, "TMPDIR"),
    ],
)
def test_each_thing_that_is_wrong_is_named_with_what_to_do(more, about, level, todo) -> None:
    found = judged(**more)
    assert found.pop(about).level is level
    assert todo in judged(**more)[about].todo
    assert {f.level for f in found.values()} == {Grade.OK}


def test_a_box_outside_its_hours_is_all_right_and_one_that_cannot_be_reached_is_not() -> None:
    def closed(reason: str) -> Diagnosis:
        device = Script()
        device(hello())
        device(BoxHeartbeat("box-a", (), reason))
        return judge_device(device.device("a/0"))

    hours = closed(Hours.parse("Sat 10:00-12:00", "UTC").closed(datetime(2026, 11, 21, 13, tzinfo=UTC)))
    assert hours.level is Grade.OK
    assert "opens Sat 10:00 UTC" in hours.text
    assert not hours.todo
    lost = closed("the relay at r:9290 does not serve it: connection refused")
    assert lost.level is Grade.WRONG
    assert lost.todo


def test_scattered_times_are_a_warning() -> None:
    assert noise("b", [1.0, 1.01, 1.0, 0.99]).level is Grade.OK
    assert noise("b", [1.0, 1.5, 1.0, 2.0]).level is Grade.WARNING


def test_no_keys_matter_only_where_others_can_listen() -> None:
    assert encryption("b", "127.0.0.1", keyed=False).level is Grade.OK
    assert encryption("b", "10.1.2.3", keyed=False).level is Grade.WARNING
    assert encryption("b", "10.1.2.3", keyed=True).level is Grade.OK
