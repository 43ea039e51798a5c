"""The tracker's rules for boxes: those that do not do as told, go and come, and outlive the tracker."""

from __future__ import annotations

import pytest

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec, HeldLease
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tracker.state import Tick

# Boxes that do not do as told


def test_a_box_that_does_not_accept_is_suspected_and_the_request_keeps_its_place() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(hello())
    script(ask("r1", "c1"))
    script(ask("r2", "c2"))
    sent = script(Tick(), 3.1)
    assert sent[0] == ("box-a", tm.RevokeLease("run-1", "you did not accept it in time"))
    assert sent[1][1] == tm.KeepStanding(0, "suspect", "its box did not answer an offered lease for 3 s")
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 1.1)[0] == ("box-a", tm.CheckDevice(0))
    sent = script(tm.CheckResult("box-a", 0, True))
    offers = [message for _, message in sent if isinstance(message, tm.GrantLease)]
    assert [offer.client for offer in offers] == ["c1"]
    assert script(tm.LeaseAccepted("box-a", "run-1")) == [
        ("box-a", tm.RevokeLease("run-1", "the tracker has given this lease up"))
    ]


def test_a_box_that_declines_is_checked_first() -> None:
    script = Script()
    script(hello("a"))
    script(ask())
    script(hello("b"))
    sent = script(tm.LeaseDeclined("box-a", "run-1", "no such slot"))
    assert [m.client for p, m in sent if isinstance(m, tm.GrantLease) and p == "box-b"] == ["c1"]
    assert script.state_of("a/0") == "suspect"


def test_a_box_that_does_not_end_a_lease_is_told_again_and_suspected() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(hello())
    grant = lent(script)
    script(tm.ReleaseLease("c1", grant.lease, grant.token))
    script(ask("r2", "c2"))
    sent = script(Tick(), 3.1)
    assert sent[0] == ("box-a", tm.RevokeLease(grant.lease, "released"))
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 3.1) == [("box-a", tm.RevokeLease(grant.lease, "released"))]
    assert script(tm.LeaseOver("box-a", grant.lease)) == []
    assert script(Tick(), 1.1) == [("box-a", tm.CheckDevice(0))]
    assert any(isinstance(m, tm.GrantLease) for _, m in script(tm.CheckResult("box-a", 0, True)))


def test_a_session_ended_by_its_box_is_the_end_of_the_lease() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(tm.LeaseOver("box-a", grant.lease, "its time limit is reached")) == [
        ("c1", tm.LeaseLost(grant.lease, "its time limit is reached"))
    ]
    assert script.state_of("a/0") == "ready"


def test_another_box_cannot_speak_for_a_lease() -> None:
    script = Script()
    script(hello("a"))
    grant = lent(script)
    script(hello("b"))
    assert script(tm.LeaseOver("box-b", grant.lease)) == []
    assert script.device("a/0").lease == grant.lease


# Boxes that go and come


def test_a_silent_box_is_first_not_lent_and_then_gone() -> None:
    script = Script()
    script(hello(slots=2))
    grant = lent(script)
    assert script(Tick(), 2.1) == []
    assert script.state_of("a/1") == "suspect"
    script(ask("r2", "c2"))
    gone = "box a is gone: no heartbeat for 3 s"
    assert script(Tick(), 1.0) == [("c1", tm.LeaseLost(grant.lease, gone))]
    assert {script.state_of("a/0"), script.state_of("a/1")} == {"gone"}
    assert script(tm.BoxHeartbeat("box-a")) == [("box-a", tm.RegisterAgain())]
    sent = script(hello(slots=2))
    assert sum(isinstance(message, tm.GrantLease) for _, message in sent) == 1


def test_a_late_heartbeat_brings_a_box_back() -> None:
    script = Script()
    script(hello())
    script(Tick(), 2.1)
    assert script.state_of("a/0") == "suspect"
    script(ask())
    sent = script(tm.BoxHeartbeat("box-a"))
    assert any(isinstance(message, tm.GrantLease) for _, message in sent)


@pytest.mark.parametrize("tenths", range(0, 50, 7))
def test_ticks_end_whatever_the_clock_rounds_to(tenths: int) -> None:
    script = Script(now=1000.0 + tenths * 0.1, late_s=0.1, box_timeout_s=0.3)
    script(hello())
    while (due := script.state.next_tick) is not None and script.state_of("a/0") != "gone":
        script(Tick(), due - script.now)
    assert script.state_of("a/0") == "gone"


def test_a_request_offered_to_a_box_that_dies_goes_to_another() -> None:
    script = Script()
    script(hello("a"))
    script(ask())
    script(hello("b"))
    sent = script(tm.BoxBye("box-a", "power cut"))
    assert [(p, m.client) for p, m in sent if isinstance(m, tm.GrantLease)] == [("box-b", "c1")]


def test_a_restarted_box_takes_its_name_over_at_the_same_address() -> None:
    script = Script()
    script(hello("a", "first"))
    sent = script(ask())
    script(tm.LeaseAccepted("first", "run-1"))
    sent = script(hello("a", "second"))
    assert ("c1", tm.LeaseLost("run-1", "box a is gone: another process of that name took its place")) in sent
    assert ("second", tm.BoxWelcome("run", 1.0)) in sent
    assert script(tm.BoxHeartbeat("first")) == [("first", tm.RegisterAgain())]
    assert script.device("a/0").leases == 1


def test_a_living_boxs_name_is_not_taken_from_elsewhere() -> None:
    script = Script()
    script(hello("a", "first"))
    ((peer, refused),) = script(hello("a", "second", address="elsewhere:9091"))
    assert peer == "second"
    assert isinstance(refused, tm.BoxRefused)
    assert "belongs to a box at a:9091" in refused.message
    script(Tick(), 3.1)
    assert script(hello("a", "second", address="elsewhere:9091")) == [("second", tm.BoxWelcome("run", 1.0))]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (hello("two words"), "box name 'two words' is no word"),
        (hello(key="a=b"), "key 'a=b' is no word"),
        (hello(devices=()), "no device"),
        (hello(devices=(DeviceSpec(slot=0, key="x"), DeviceSpec(slot=0, key="y"))), "a slot twice"),
    ],
)
def test_a_bad_description_is_refused(bad: tm.BoxHello, says: str) -> None:
    ((_, refused),) = Script()(bad)
    assert isinstance(refused, tm.BoxRefused)
    assert says in refused.message


def test_one_agent_is_one_box() -> None:
    script = Script()
    script(hello("a", "agent"))
    ((_, refused),) = script(hello("b", "agent"))
    assert isinstance(refused, tm.BoxRefused)


def test_a_box_may_come_back_with_fewer_devices() -> None:
    script = Script()
    script(hello(slots=2))
    lent(script, "r1", expr="device=a/1")
    sent = script(hello(slots=1, leases=()))
    assert ("c1", tm.LeaseLost("run-1", "its box lends the device no more")) in sent
    assert [d.id for d in script.state.device_page("", 10, script.now).devices] == ["a/0"]


def test_heartbeats_mend_what_got_lost() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(tm.BoxHeartbeat("box-a", (grant.lease,))) == []
    assert script(tm.BoxHeartbeat("box-a", (grant.lease, "old-9"))) == [
        ("box-a", tm.RevokeLease("old-9", "the tracker does not know this lease"))
    ]
    assert script(tm.BoxHeartbeat("box-a")) == [("c1", tm.LeaseLost(grant.lease, "its box does not hold it any more"))]
    assert script.state_of("a/0") == "ready"


def test_a_hello_again_mends_an_offer_that_got_lost_and_one_whose_answer_did() -> None:
    script = Script()
    script(hello(slots=2))
    first = script(ask("r1"))
    script(ask("r2"))
    assert ("box-a", first[0][1]) in script(hello(slots=2))
    held = HeldLease(lease="run-1", slot=0, token="1-s1", user="ann", client="c1")
    sent = script(hello(slots=2, leases=(held,)))
    assert [message.request for _, message in sent if isinstance(message, tm.Granted)] == ["r1"]


def test_a_gone_box_is_forgotten_in_time() -> None:
    script = Script(forget_s=60.0)
    script(hello())
    script(tm.BoxBye("box-a"))
    script(Tick(), 61.0)
    assert script.state.device_page("", 10, script.now).devices == ()
    assert not script.state.farm.boxes


# A tracker that starts anew


HELD = HeldLease(lease="before-7", slot=0, token="7-old", user="ann", client="c1", left_s=100.0)


def test_a_restarted_tracker_learns_the_leases_from_the_boxes() -> None:
    script = Script()
    assert script(tm.RenewLeases("c1", (("before-7", "7-old"),))) == [("c1", tm.Renewed("run"))]
    script(hello(leases=(HELD,), high=7))
    assert script.device("a/0").lease == "before-7"
    assert script(ask("r2", "c2")) == [("c2", tm.Queued("r2", 1, 1, 1, None))]
    assert script(tm.RenewLeases("c1", (("before-7", "7-old"),)), 2.0) == [("c1", tm.Renewed("run"))]
    script(tm.ReleaseLease("c1", "before-7", "7-old"))
    ((_, offer),) = script(tm.LeaseOver("box-a", "before-7"))
    assert offer.number == 8
    assert script.kinds() == ["registered", "restored", "queued", "ending", "ended", "granted"]


def test_a_restored_lease_whose_client_is_dead_ends() -> None:
    script = Script(late_s=100.0, box_timeout_s=100.0)
    script(hello(leases=(HELD,)))
    assert ("box-a", tm.RevokeLease("before-7", "its client was silent for 10 s")) in script(Tick(), 10.1)


def test_after_settling_an_unknown_lease_is_lost() -> None:
    script = Script(settle_s=5.0)
    script(Tick())
    renewal = tm.RenewLeases("c1", (("before-7", "7-old"),))
    assert script(renewal, 4.0) == [("c1", tm.Renewed("run"))]
    assert script(renewal, 2.0)[0] == ("c1", tm.LeaseLost("before-7", "it has ended or expired"))


def test_a_box_that_was_away_is_told_that_its_lease_was_given_up() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    script(Tick(), 2.1)
    script(Tick(), 1.1)
    held = HeldLease(lease=grant.lease, slot=0, token=grant.token, user="ann", client="c1")
    sent = script(hello(leases=(held,)))
    assert sent[-1][1] == tm.RevokeLease(grant.lease, "it was given up while its box was away")
    script(ask("r2", "c2"))
    assert script.device("a/0").lease == grant.lease
    ((_, offer),) = script(tm.LeaseOver("box-a", grant.lease))
    assert isinstance(offer, tm.GrantLease)


def test_two_leases_on_one_slot_are_one_too_many() -> None:
    other = HeldLease(lease="before-8", slot=0, token="8-old", user="bob", client="c2")
    script = Script()
    sent = script(hello(leases=(HELD, other)))
    assert ("box-a", tm.RevokeLease("before-8", "the tracker does not know this lease")) in sent
    assert script.device("a/0").user == "ann"
