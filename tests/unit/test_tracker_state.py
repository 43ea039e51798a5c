"""The tracker's rules: lists of events in, lists of commands out."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from rpc_server.tracker_messages import (
    Admin,
    BoxBye,
    BoxHeartbeat,
    BoxHello,
    BoxRefused,
    BoxWelcome,
    CancelRequest,
    CheckDevice,
    CheckResult,
    ClientBye,
    Granted,
    GrantLease,
    KeepStanding,
    LeaseAccepted,
    LeaseDeclined,
    LeaseLost,
    LeaseOver,
    LeaseReleased,
    Queued,
    Refused,
    RegisterAgain,
    ReleaseLease,
    Renewed,
    RenewLeases,
    RequestDevice,
    RevokeLease,
    SuspectDevice,
)
from rpc_server.tracker_records import DeviceSpec, HeldLease, LeaseGrant, LogEvent
from tracker.errors import UnknownDeviceError
from tracker.farm import Record, Send, Timing
from tracker.state import Tick, TrackerState


class Script:
    """A tracker whose run is called `run`, and whose secrets are s1, s2, …"""

    def __init__(self, run: str = "run", now: float = 100.0, **timing: float) -> None:
        secrets = count(1)
        self.state = TrackerState(run=run, timing=Timing(**timing), secret=lambda: f"s{next(secrets)}")
        self.now = now
        self.log: list[LogEvent] = []

    def __call__(self, event: Any, after: float = 0.0) -> list[tuple[str, Any]]:
        """What is sent, as (peer, message), when an event comes `after` seconds."""
        self.now += after
        sent = []
        for command in self.state.handle(event, self.now):
            match command:
                case Send(peer, message):
                    sent.append((peer, message))
                case Record(logged):
                    self.log.append(logged)
        return sent

    def kinds(self) -> list[str]:
        return [event.kind for event in self.log]

    def device(self, device: str) -> Any:
        return next(d for d in self.state.device_page("", 100, self.now).devices if d.id == device)

    def state_of(self, device: str) -> str:
        return str(self.device(device).state)


def hello(box: str = "a", peer: str = "", slots: int = 1, leases: tuple[HeldLease, ...] = (), **more: Any) -> BoxHello:
    devices = tuple(DeviceSpec(slot=slot, key=more.get("key", "cpu")) for slot in range(slots))
    address = more.get("address", f"{box}:9091")
    return BoxHello(peer or f"box-{box}", box, address, more.get("devices", devices), leases, more.get("high", 0))


def ask(request: str = "r1", peer: str = "c1", expr: str = "cpu", **more: Any) -> RequestDevice:
    return RequestDevice(peer=peer, request=request, user=more.pop("user", "ann"), expr=expr, **more)


def lent(script: Script, request: str = "r1", peer: str = "c1", box: str = "a", **more: Any) -> LeaseGrant:
    """Ask, have the box accept, and return what the client got."""
    sent = script(ask(request, peer, **more))
    offered = next(message for _, message in sent if isinstance(message, GrantLease))
    ((to, granted),) = script(LeaseAccepted(f"box-{box}", offered.lease))
    assert to == peer
    assert isinstance(granted, Granted)
    return granted.grant


# A device's way to a client and back


def test_a_lease_from_request_to_end() -> None:
    script = Script()
    assert script(hello()) == [("box-a", BoxWelcome("run", 1.0))]
    offer = GrantLease(lease="run-1", slot=0, token="1-s1", number=1, user="ann", client="c1", left_s=None)
    assert script(ask()) == [("box-a", offer)]
    assert script.state_of("a/0") == "leased"
    grant = LeaseGrant(
        lease="run-1",
        token="1-s1",
        device="a/0",
        slot=0,
        key="cpu",
        address="a:9091",
        fingerprint="",
        attributes={},
        renew_s=1.0,
        grace_s=10.0,
    )
    assert script(LeaseAccepted("box-a", "run-1")) == [("c1", Granted("r1", grant))]
    assert script(RenewLeases("c1", (("run-1", "1-s1"),)), 5.0) == [("c1", Renewed("run"))]
    assert script(ReleaseLease("c1", "run-1", "1-s1")) == [
        ("c1", LeaseReleased("run-1")),
        ("box-a", RevokeLease("run-1", "released")),
    ]
    assert script.state_of("a/0") == "leased"
    assert script(LeaseOver("box-a", "run-1")) == []
    assert script.state_of("a/0") == "ready"
    assert script.kinds() == ["registered", "granted", "active", "ending", "ended"]
    assert script.device("a/0").busy_s == 5.0
    assert not script.state.farm.clients


def test_the_device_goes_to_the_next_only_when_its_box_is_done() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(ask("r2", "c2")) == [("c2", Queued("r2", 1, 1, 1, None))]
    script(ReleaseLease("c1", grant.lease, grant.token))
    ((peer, message),) = script(LeaseOver("box-a", grant.lease))
    assert peer == "box-a"
    assert isinstance(message, GrantLease)
    assert (message.lease, message.number, message.client) == ("run-2", 2, "c2")


def test_asking_again_is_a_sign_of_life_and_gives_a_lost_grant_again() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(ask()) == [("c1", Granted("r1", grant))]
    script(ask("r2", "c2"))
    ((_, place),) = script(ask("r2", "c2"), 1.0)
    assert isinstance(place, Queued)
    ((_, refused),) = script(ask("r2", "thief"))
    assert isinstance(refused, Refused)


def test_a_request_is_refused_when_its_wait_is_over() -> None:
    script = Script()
    script(hello())
    lent(script)
    script(ask("r2", "c2", wait_s=3.0))
    script(BoxHeartbeat("box-a", ("run-1",)), 1.9)
    script(BoxHeartbeat("box-a", ("run-1",)), 1.0)
    assert script(Tick()) == []
    ((peer, refused),) = script(Tick(), 0.2)
    assert peer == "c2"
    assert refused.kind == "no_device"
    assert "became free after 3.1 s: 1 match" in refused.message
    assert "number 1 of 1" in refused.message
    ((_, refused),) = script(ask("r3", "c3", expr="gpu", wait_s=0.0))
    assert "no registered device matches 'gpu' after 0.0 s; keys registered: cpu (1)" in refused.message
    assert "tunefarm server" in refused.hint


def test_a_bad_expression_is_refused() -> None:
    ((peer, refused),) = Script()(ask(expr="cores>=lots"))
    assert (peer, refused.request, refused.kind) == ("c1", "r1", "capability")


def test_a_cancelled_request_is_forgotten_and_a_cancelled_grant_goes_back() -> None:
    script = Script()
    script(hello())
    lent(script)
    script(ask("r2", "c2"))
    assert script(CancelRequest("thief", "r2")) == []
    assert script(CancelRequest("c2", "r2")) == []
    assert script(CancelRequest("c1", "r1")) == [("box-a", RevokeLease("run-1", "cancelled"))]
    assert script(LeaseOver("box-a", "run-1")) == []
    assert script.state_of("a/0") == "ready"


def test_a_waiting_client_that_falls_silent_loses_its_place() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(ask())
    script(ask(), 5.0)
    script(Tick(), 9.0)
    assert script.kinds() == ["queued"]
    script(Tick(), 1.1)
    assert script.kinds() == ["queued", "cancelled"]
    assert not script.state.farm.requests


def test_a_silent_clients_device_returns_after_the_grace_period() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(hello())
    grant = lent(script)
    script(RenewLeases("c1", ((grant.lease, grant.token),)), 8.0)
    assert script(Tick(), 9.9) == []
    lost = "its client was silent for 10 s"
    assert script(Tick(), 0.2) == [
        ("c1", LeaseLost(grant.lease, lost)),
        ("box-a", RevokeLease(grant.lease, lost)),
    ]
    script(LeaseOver("box-a", grant.lease))
    assert script.state_of("a/0") == "ready"
    assert script(RenewLeases("c1", ((grant.lease, grant.token),)))[0] == (
        "c1",
        LeaseLost(grant.lease, "it has ended or expired"),
    )


def test_a_lease_ends_at_its_time_limit_though_renewed() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(hello())
    grant = lent(script, session_timeout_s=12.0)
    assert grant.session_timeout_s == 12.0
    for _ in range(3):
        script(RenewLeases("c1", ((grant.lease, grant.token),)), 4.0)
    sent = script(Tick(), 0.1)
    assert ("c1", LeaseLost(grant.lease, "its time limit is reached")) in sent


def test_a_client_that_leaves_gives_everything_back() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    script(ask("r2", "c1"))
    assert script(ClientBye("c1")) == [("box-a", RevokeLease(grant.lease, "its client left"))]
    script(LeaseOver("box-a", grant.lease))
    assert script.state_of("a/0") == "ready"
    assert not script.state.farm.clients
    assert script(ClientBye("c1")) == []


# Old tokens


def test_an_old_token_is_refused_and_harms_nobody() -> None:
    script = Script()
    script(hello())
    old = lent(script)
    script(ReleaseLease("c1", old.lease, old.token))
    script(LeaseOver("box-a", old.lease))
    new = lent(script, "r2", "c2")
    assert script(ReleaseLease("c1", old.lease, old.token)) == [("c1", LeaseReleased(old.lease))]
    wrong = LeaseLost(new.lease, "the token is not this lease's")
    assert script(ReleaseLease("c1", new.lease, old.token)) == [("c1", wrong)]
    assert script(RenewLeases("c1", ((new.lease, old.token),)))[0] == ("c1", wrong)
    assert script.device("a/0").lease == new.lease
    assert script.kinds()[-2:] == ["stale_token", "stale_token"]


def test_numbers_grow_past_what_a_box_has_seen() -> None:
    script = Script()
    script(hello(high=41))
    assert lent(script).token == "42-s1"


# Boxes that do not do as told


def test_a_box_that_does_not_accept_is_suspected_and_the_request_keeps_its_place() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(hello())
    script(ask("r1", "c1"))
    script(ask("r2", "c2"))
    sent = script(Tick(), 3.1)
    assert sent[0] == ("box-a", RevokeLease("run-1", "you did not accept it in time"))
    assert sent[1][1] == KeepStanding(0, "suspect", "its box did not answer an offered lease for 3 s")
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 1.1)[0] == ("box-a", CheckDevice(0))
    sent = script(CheckResult("box-a", 0, True))
    offers = [message for _, message in sent if isinstance(message, GrantLease)]
    assert [offer.client for offer in offers] == ["c1"]
    assert script(LeaseAccepted("box-a", "run-1")) == [
        ("box-a", RevokeLease("run-1", "the tracker has given this lease up"))
    ]


def test_a_box_that_declines_is_checked_first() -> None:
    script = Script()
    script(hello("a"))
    script(ask())
    script(hello("b"))
    sent = script(LeaseDeclined("box-a", "run-1", "no such slot"))
    assert [m.client for p, m in sent if isinstance(m, GrantLease) and p == "box-b"] == ["c1"]
    assert script.state_of("a/0") == "suspect"


def test_a_box_that_does_not_end_a_lease_is_told_again_and_suspected() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(hello())
    grant = lent(script)
    script(ReleaseLease("c1", grant.lease, grant.token))
    script(ask("r2", "c2"))
    sent = script(Tick(), 3.1)
    assert sent[0] == ("box-a", RevokeLease(grant.lease, "released"))
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 3.1) == [("box-a", RevokeLease(grant.lease, "released"))]
    assert script(LeaseOver("box-a", grant.lease)) == []
    assert script(Tick(), 1.1) == [("box-a", CheckDevice(0))]
    assert any(isinstance(m, GrantLease) for _, m in script(CheckResult("box-a", 0, True)))


def test_a_session_ended_by_its_box_is_the_end_of_the_lease() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(LeaseOver("box-a", grant.lease, "its time limit is reached")) == [
        ("c1", LeaseLost(grant.lease, "its time limit is reached"))
    ]
    assert script.state_of("a/0") == "ready"


def test_another_box_cannot_speak_for_a_lease() -> None:
    script = Script()
    script(hello("a"))
    grant = lent(script)
    script(hello("b"))
    assert script(LeaseOver("box-b", grant.lease)) == []
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
    assert script(Tick(), 1.0) == [("c1", LeaseLost(grant.lease, gone))]
    assert {script.state_of("a/0"), script.state_of("a/1")} == {"gone"}
    assert script(BoxHeartbeat("box-a")) == [("box-a", RegisterAgain())]
    sent = script(hello(slots=2))
    assert sum(isinstance(message, GrantLease) for _, message in sent) == 1


def test_a_late_heartbeat_brings_a_box_back() -> None:
    script = Script()
    script(hello())
    script(Tick(), 2.1)
    assert script.state_of("a/0") == "suspect"
    script(ask())
    sent = script(BoxHeartbeat("box-a"))
    assert any(isinstance(message, GrantLease) for _, message in sent)


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
    sent = script(BoxBye("box-a", "power cut"))
    assert [(p, m.client) for p, m in sent if isinstance(m, GrantLease)] == [("box-b", "c1")]


def test_a_restarted_box_takes_its_name_over_at_the_same_address() -> None:
    script = Script()
    script(hello("a", "first"))
    sent = script(ask())
    script(LeaseAccepted("first", "run-1"))
    sent = script(hello("a", "second"))
    assert ("c1", LeaseLost("run-1", "box a is gone: another process of that name took its place")) in sent
    assert ("second", BoxWelcome("run", 1.0)) in sent
    assert script(BoxHeartbeat("first")) == [("first", RegisterAgain())]
    assert script.device("a/0").leases == 1


def test_a_living_boxs_name_is_not_taken_from_elsewhere() -> None:
    script = Script()
    script(hello("a", "first"))
    ((peer, refused),) = script(hello("a", "second", address="elsewhere:9091"))
    assert peer == "second"
    assert isinstance(refused, BoxRefused)
    assert "belongs to a box at a:9091" in refused.message
    script(Tick(), 3.1)
    assert script(hello("a", "second", address="elsewhere:9091")) == [("second", BoxWelcome("run", 1.0))]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (hello("two words"), "box name 'two words' is no word"),
        (hello(key="a=b"), "key 'a=b' is no word"),
        (hello(devices=()), "no device"),
        (hello(devices=(DeviceSpec(slot=0, key="x"), DeviceSpec(slot=0, key="y"))), "a slot twice"),
    ],
)
def test_a_bad_description_is_refused(bad: BoxHello, says: str) -> None:
    ((_, refused),) = Script()(bad)
    assert isinstance(refused, BoxRefused)
    assert says in refused.message


def test_one_agent_is_one_box() -> None:
    script = Script()
    script(hello("a", "agent"))
    ((_, refused),) = script(hello("b", "agent"))
    assert isinstance(refused, BoxRefused)


def test_a_box_may_come_back_with_fewer_devices() -> None:
    script = Script()
    script(hello(slots=2))
    lent(script, "r1", expr="device=a/1")
    sent = script(hello(slots=1, leases=()))
    assert ("c1", LeaseLost("run-1", "its box lends the device no more")) in sent
    assert [d.id for d in script.state.device_page("", 10, script.now).devices] == ["a/0"]


def test_heartbeats_mend_what_got_lost() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(BoxHeartbeat("box-a", (grant.lease,))) == []
    assert script(BoxHeartbeat("box-a", (grant.lease, "old-9"))) == [
        ("box-a", RevokeLease("old-9", "the tracker does not know this lease"))
    ]
    assert script(BoxHeartbeat("box-a")) == [("c1", LeaseLost(grant.lease, "its box does not hold it any more"))]
    assert script.state_of("a/0") == "ready"


def test_a_hello_again_mends_an_offer_that_got_lost_and_one_whose_answer_did() -> None:
    script = Script()
    script(hello(slots=2))
    first = script(ask("r1"))
    script(ask("r2"))
    assert ("box-a", first[0][1]) in script(hello(slots=2))
    held = HeldLease(lease="run-1", slot=0, token="1-s1", user="ann", client="c1")
    sent = script(hello(slots=2, leases=(held,)))
    assert [message.request for _, message in sent if isinstance(message, Granted)] == ["r1"]


def test_a_gone_box_is_forgotten_in_time() -> None:
    script = Script(forget_s=60.0)
    script(hello())
    script(BoxBye("box-a"))
    script(Tick(), 61.0)
    assert script.state.device_page("", 10, script.now).devices == ()
    assert not script.state.farm.boxes


# A tracker that starts anew


HELD = HeldLease(lease="before-7", slot=0, token="7-old", user="ann", client="c1", left_s=100.0)


def test_a_restarted_tracker_learns_the_leases_from_the_boxes() -> None:
    script = Script()
    assert script(RenewLeases("c1", (("before-7", "7-old"),))) == [("c1", Renewed("run"))]
    script(hello(leases=(HELD,), high=7))
    assert script.device("a/0").lease == "before-7"
    assert script(ask("r2", "c2")) == [("c2", Queued("r2", 1, 1, 1, None))]
    assert script(RenewLeases("c1", (("before-7", "7-old"),)), 2.0) == [("c1", Renewed("run"))]
    script(ReleaseLease("c1", "before-7", "7-old"))
    ((_, offer),) = script(LeaseOver("box-a", "before-7"))
    assert offer.number == 8
    assert script.kinds() == ["registered", "restored", "queued", "ending", "ended", "granted"]


def test_a_restored_lease_whose_client_is_dead_ends() -> None:
    script = Script(late_s=100.0, box_timeout_s=100.0)
    script(hello(leases=(HELD,)))
    assert ("box-a", RevokeLease("before-7", "its client was silent for 10 s")) in script(Tick(), 10.1)


def test_after_settling_an_unknown_lease_is_lost() -> None:
    script = Script(settle_s=5.0)
    script(Tick())
    renewal = RenewLeases("c1", (("before-7", "7-old"),))
    assert script(renewal, 4.0) == [("c1", Renewed("run"))]
    assert script(renewal, 2.0)[0] == ("c1", LeaseLost("before-7", "it has ended or expired"))


def test_a_box_that_was_away_is_told_that_its_lease_was_given_up() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    script(Tick(), 2.1)
    script(Tick(), 1.1)
    held = HeldLease(lease=grant.lease, slot=0, token=grant.token, user="ann", client="c1")
    sent = script(hello(leases=(held,)))
    assert sent[-1][1] == RevokeLease(grant.lease, "it was given up while its box was away")
    script(ask("r2", "c2"))
    assert script.device("a/0").lease == grant.lease
    ((_, offer),) = script(LeaseOver("box-a", grant.lease))
    assert isinstance(offer, GrantLease)


def test_two_leases_on_one_slot_are_one_too_many() -> None:
    other = HeldLease(lease="before-8", slot=0, token="8-old", user="bob", client="c2")
    script = Script()
    sent = script(hello(leases=(HELD, other)))
    assert ("box-a", RevokeLease("before-8", "the tracker does not know this lease")) in sent
    assert script.device("a/0").user == "ann"


# Health and what an admin does


def test_a_failed_check_quarantines_until_a_passing_one() -> None:
    script = Script(late_s=100.0, box_timeout_s=100.0, recheck_s=60.0)
    script(hello())
    script(SuspectDevice("box-a", 0, "a kernel hung"))
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 1.1) == [("box-a", CheckDevice(0))]
    assert script(Tick(), 15.1) == [("box-a", CheckDevice(0))]
    script(CheckResult("box-a", 0, False, "half the speed"))
    assert script.state_of("a/0") == "quarantined"
    assert script.device("a/0").reason == "it failed a check: half the speed"
    assert script(ask()) == [("c1", Queued("r1", 1, 1, 1, None))]
    script(ask(), 9.0)
    assert ("box-a", CheckDevice(0)) in script(Tick(), 51.1)
    script(ask("r2"))
    sent = script(CheckResult("box-a", 0, True))
    assert sent[0] == ("box-a", KeepStanding(0, "ok", "it passed a check", False))
    assert isinstance(sent[1][1], GrantLease)


def test_a_reported_fault_has_the_device_checked() -> None:
    script = Script(late_s=100.0, box_timeout_s=100.0)
    script(hello())
    grant = lent(script)
    script(ReleaseLease("c1", grant.lease, grant.token, "no session opens"))
    assert script.state_of("a/0") == "suspect"
    script(LeaseOver("box-a", grant.lease))
    assert script.state_of("a/0") == "suspect"
    assert script(Tick(), 1.1) == [("box-a", CheckDevice(0))]


def test_a_request_said_again_after_it_was_refused_or_cancelled_does_not_queue_anew() -> None:
    script = Script()
    (refused,) = script(ask("r1", wait_s=0.0))
    assert script(ask("r1", wait_s=0.0)) == [refused]
    script(ask("r2"))
    script(CancelRequest("c1", "r2"))
    assert script(ask("r2")) == []
    assert script.state.queue_page().queues == ()


def test_a_drained_device_finishes_its_lease_and_gets_no_other() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    script(ask("r2", "c2"))
    assert script(Admin("drain", "a/0", "moving it")) == [("box-a", KeepStanding(0, "draining", "moving it", True))]
    assert script.state_of("a/0") == "draining"
    script(ReleaseLease("c1", grant.lease, grant.token))
    assert script(LeaseOver("box-a", grant.lease)) == []
    script(CheckResult("box-a", 0, True))
    assert script.state_of("a/0") == "draining"
    sent = script(Admin("undrain", "a/0"))
    assert isinstance(sent[1][1], GrantLease)


def test_a_quarantined_device_loses_its_lease_and_only_an_admin_brings_it_back() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    lost = "device a/0 was quarantined: smoke"
    assert script(Admin("quarantine", "a", "smoke")) == [
        ("box-a", KeepStanding(0, "quarantined", "smoke", True)),
        ("c1", LeaseLost(grant.lease, lost)),
        ("box-a", RevokeLease(grant.lease, lost)),
    ]
    script(LeaseOver("box-a", grant.lease))
    script(CheckResult("box-a", 0, True))
    assert script.state_of("a/0") == "quarantined"
    script(Admin("unquarantine", "a"))
    assert script.state_of("a/0") == "ready"


def test_a_standing_outlives_the_tracker_and_the_box() -> None:
    spec = DeviceSpec(slot=0, key="cpu", standing="quarantined", reason="smoke", by_admin=True)
    script = Script()
    script(hello(devices=(spec,)))
    assert (script.state_of("a/0"), script.device("a/0").reason) == ("quarantined", "smoke")
    script(BoxBye("box-a"))
    sent = script(hello(peer="box-a2"))
    assert ("box-a2", KeepStanding(0, "quarantined", "smoke", True)) in sent
    assert script.state_of("a/0") == "quarantined"


def test_an_unknown_target_is_an_error() -> None:
    script = Script()
    with pytest.raises(UnknownDeviceError, match="'nope'"):
        script(Admin("drain", "nope"))
    with pytest.raises(UnknownDeviceError):
        script.state.find("nope")


# What it shows


def test_pages_and_queues() -> None:
    script = Script()
    script(hello("a", slots=3))
    script(hello("g", key="gpu"))
    page = script.state.device_page("", 2, script.now)
    assert ([d.id for d in page.devices], page.more) == (["a/0", "a/1"], True)
    page = script.state.device_page("a/1", 2, script.now)
    assert ([d.id for d in page.devices], page.more) == (["a/2", "g/0"], False)
    lent(script)
    script(ask("r2", expr="cores>=8"))
    queues = {q.key: (q.free, q.pending, q.devices) for q in script.state.queue_page().queues}
    assert queues == {"cpu": (2, 0, 3), "gpu": (1, 0, 1), "cores>=8": (0, 1, 0)}
    info = script.device("a/0")
    assert (info.user, info.lease, info.key, info.leases) == ("ann", "run-1", "cpu", 1)


def test_a_place_in_the_queue_comes_with_a_guess_of_the_wait() -> None:
    script = Script(late_s=1000.0, box_timeout_s=1000.0, grace_s=1000.0)
    script(hello(slots=2))
    grant = lent(script)
    script(ReleaseLease("c1", grant.lease, grant.token), 20.0)
    script(LeaseOver("box-a", grant.lease))
    lent(script, "r2")
    lent(script, "r3")
    ((_, place),) = script(ask("r4", "c4"))
    assert (place.position, place.devices, place.eta_s) == (1, 2, 10.0)


def test_floods_are_refused() -> None:
    script = Script()
    for i in range(1000):
        script(ask(f"r{i}"))
    ((_, refused),) = script(ask("one-more"))
    assert refused.kind == "tracker_busy"
    assert any(isinstance(m, Queued) for _, m in script(ask("other", "c2")))
