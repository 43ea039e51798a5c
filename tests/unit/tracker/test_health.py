"""The tracker's rules for a device's health, and what an admin does."""

from __future__ import annotations

import pytest

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tracker.errors import UnknownDeviceError
from tracker.state import Tick


def test_a_failed_check_quarantines_until_a_passing_one() -> None:
    script = Script(late_s=100.0, box_timeout_s=100.0, recheck_s=60.0)
    script(hello())
    script(tm.SuspectDevice("box-a", 0, "a kernel hung"))
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 1.1) == [("box-a", tm.CheckDevice(0))]
    assert script(Tick(), 15.1) == [("box-a", tm.CheckDevice(0))]
    script(tm.CheckResult("box-a", 0, False, "half the speed"))
    assert script.state_of("a/0") == "quarantined"
    assert script.device("a/0").reason == "it failed a check: half the speed"
    assert script(ask()) == [("c1", tm.Queued("r1", 1, 1, 1, None))]
    script(ask(), 9.0)
    assert ("box-a", tm.CheckDevice(0)) in script(Tick(), 51.1)
    script(ask("r2"))
    sent = script(tm.CheckResult("box-a", 0, True))
    assert sent[0] == ("box-a", tm.KeepStanding(0, "ok", "it passed a check", False))
    assert isinstance(sent[1][1], tm.GrantLease)


def test_a_reported_fault_has_the_device_checked() -> None:
    script = Script(late_s=100.0, box_timeout_s=100.0)
    script(hello())
    grant = lent(script)
    script(tm.ReleaseLease("c1", grant.lease, grant.token, "no session opens"))
    assert script.state_of("a/0") == "suspect"
    script(tm.LeaseOver("box-a", grant.lease))
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 1.1) == [("box-a", tm.CheckDevice(0))]


def test_a_request_said_again_after_it_was_refused_or_cancelled_does_not_queue_anew() -> None:
    script = Script()
    (refused,) = script(ask("r1", wait_s=0.0))
    assert script(ask("r1", wait_s=0.0)) == [refused]
    script(ask("r2"))
    script(tm.CancelRequest("c1", "r2"))
    assert script(ask("r2")) == []
    assert script.state.queue_page().queues == ()


def test_a_drained_device_finishes_its_lease_and_gets_no_other() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    script(ask("r2", "c2"))
    assert script(tm.Admin("drain", "a/0", "moving it")) == [
        ("box-a", tm.KeepStanding(0, "draining", "moving it", True))
    ]
    assert script.state_of("a/0") == "draining"
    script(tm.ReleaseLease("c1", grant.lease, grant.token))
    assert script(tm.LeaseOver("box-a", grant.lease)) == []
    script(tm.CheckResult("box-a", 0, True))
    assert script.state_of("a/0") == "draining"
    sent = script(tm.Admin("undrain", "a/0"))
    assert isinstance(sent[1][1], tm.GrantLease)


def test_a_quarantined_device_loses_its_lease_and_only_an_admin_brings_it_back() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    lost = "device a/0 was quarantined: smoke"
    assert script(tm.Admin("quarantine", "a", "smoke")) == [
        ("box-a", tm.KeepStanding(0, "quarantined", "smoke", True)),
        ("c1", tm.LeaseLost(grant.lease, lost)),
        ("box-a", tm.RevokeLease(grant.lease, lost)),
    ]
    script(tm.LeaseOver("box-a", grant.lease))
    script(tm.CheckResult("box-a", 0, True))
    assert script.state_of("a/0") == "quarantined"
    script(tm.Admin("unquarantine", "a"))
    assert script.state_of("a/0") == "ready"


def test_a_standing_outlives_the_tracker_and_the_box() -> None:
    spec = DeviceSpec(slot=0, key="cpu", standing="quarantined", reason="smoke", by_admin=True)
    script = Script()
    script(hello(devices=(spec,)))
    assert (script.state_of("a/0"), script.device("a/0").reason) == ("quarantined", "smoke")
    script(tm.BoxBye("box-a"))
    sent = script(hello(peer="box-a2"))
    assert ("box-a2", tm.KeepStanding(0, "quarantined", "smoke", True)) in sent
    assert script.state_of("a/0") == "quarantined"


def test_an_unknown_target_is_an_error() -> None:
    script = Script()
    with pytest.raises(UnknownDeviceError, match="'nope'"):
        script(tm.Admin("drain", "nope"))
    with pytest.raises(UnknownDeviceError):
        script.state.find("nope")
