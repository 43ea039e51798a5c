"""A box's agent: what it says to the tracker and what it lets in, without I/O."""

from __future__ import annotations

import logging
import os

import msgspec
import pytest

from rpc_server.errors import ConnectError
from rpc_server.farm_link.leases import LeaseReport
from rpc_server.farm_link.registrar import cpu_device, split_address
from rpc_server.farm_link.registrar_core import ALLOW_S, Allow, Forbid, Note, RegistrarCore, RunCheck, SendToTracker
from rpc_server.machine.fingerprint import local_fingerprint
from rpc_server.machine.health import Health
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec, HeldLease, Scores
from tracker.capability import Capabilities, parse_capability

SPEC = DeviceSpec(slot=0, key="cpu")


def core(*specs: DeviceSpec) -> RegistrarCore:
    return RegistrarCore("me", "a", "a:9091", specs or (SPEC,))


def registered(*specs: DeviceSpec) -> RegistrarCore:
    agent = core(*specs)
    agent.tick(0.0)
    agent.handle(tm.BoxWelcome("run", 1.0), 0.0)
    agent.tick(0.0)
    return agent


def grant(number: int = 1, slot: int = 0, left_s: float | None = None) -> tm.GrantLease:
    return tm.GrantLease(f"run-{number}", slot, f"{number}-s", number, "ann", "c1", left_s)


def allowed(number: int = 1, now: float = 0.0, slot: int = 0) -> list[object]:
    return [
        Allow(f"run-{number}", f"{number}-s", now + ALLOW_S),
        SendToTracker(tm.LeaseAccepted("me", f"run-{number}")),
    ]


def test_a_tracker_that_does_not_answer_is_told_of_once_and_so_is_its_answer() -> None:
    agent = core()
    notes = [action for now in range(60) for action in agent.tick(float(now)) if isinstance(action, Note)]
    assert notes == [Note(logging.WARNING, "the tracker does not answer; this box goes on asking")]
    assert agent.handle(tm.BoxWelcome("run", 1.0), 60.0) == [Note(logging.WARNING, "registered with the tracker as a")]
    assert not any(isinstance(action, Note) for action in agent.tick(61.0))


def test_it_says_hello_until_it_is_welcome() -> None:
    agent = core()
    hello = SendToTracker(tm.BoxHello("me", "a", "a:9091", (SPEC,)))
    assert agent.tick(0.0) == [hello]
    assert agent.tick(0.05) == []
    pauses = []
    now = 0.0
    for _ in range(12):
        pauses.append(agent.next_tick() - now)
        now = agent.next_tick()
        assert agent.tick(now)[-1] == hello
    assert pauses[0] == pytest.approx(0.1)
    assert pauses[-1] == 2.0
    (note,) = agent.handle(tm.BoxWelcome("run", 1.0), now)
    assert isinstance(note, Note)
    assert agent.registered
    assert agent.tick(now) == [SendToTracker(tm.BoxHeartbeat("me"))]
    assert agent.tick(now + 0.9) == []
    assert agent.tick(now + 1.0) == [SendToTracker(tm.BoxHeartbeat("me"))]


def test_a_refusal_is_noted_once_and_tried_again() -> None:
    agent = core()
    agent.tick(0.0)
    refused = tm.BoxRefused("registration", "the name 'a' is taken", "choose another")
    (note,) = agent.handle(refused, 0.0)
    assert isinstance(note, Note)
    assert "choose another" in note.text
    assert agent.refusal
    assert agent.handle(refused, 0.1) == []
    assert agent.tick(agent.next_tick())
    agent.handle(tm.BoxWelcome("run", 1.0), 9.0)
    assert agent.refusal == ""


def test_a_lost_connection_and_a_new_tracker_lead_to_a_hello_with_the_leases() -> None:
    agent = registered()
    agent.handle(grant(3, left_s=100.0), 0.0)
    held = HeldLease(lease="run-3", slot=0, token="3-s", user="ann", client="c1", left_s=90.0)
    hello = SendToTracker(tm.BoxHello("me", "a", "a:9091", (SPEC,), (held,), 3))
    agent.cut_off(10.0)
    assert not agent.registered
    assert agent.tick(10.0) == [hello]
    agent.handle(tm.BoxWelcome("run", 1.0), 10.0)
    assert agent.handle(tm.RegisterAgain(), 10.0) == [hello]


def test_a_grant_is_let_in_and_said_again_if_asked_again() -> None:
    agent = registered()
    assert agent.handle(grant(), 0.0) == allowed()
    assert agent.handle(grant(), 1.0) == [SendToTracker(tm.LeaseAccepted("me", "run-1"))]
    assert agent.tick(1.0) == [SendToTracker(tm.BoxHeartbeat("me", ("run-1",)))]


def test_old_numbers_and_unknown_slots_are_declined() -> None:
    agent = registered()
    agent.handle(grant(5), 0.0)
    agent.handle(tm.RevokeLease("run-5", ""), 0.0)
    (said,) = agent.handle(grant(4), 0.0)
    assert said == SendToTracker(tm.LeaseDeclined("me", "run-4", "token number 4 is not newer than 5"))
    (said,) = agent.handle(grant(6, slot=3), 0.0)
    assert said == SendToTracker(tm.LeaseDeclined("me", "run-6", "there is no slot 3"))


def test_a_revoked_lease_is_over_when_its_session_is() -> None:
    agent = registered()
    agent.handle(grant(), 0.0)
    agent.session(LeaseReport("run-1", "opened"), 0.0)
    assert agent.handle(tm.RevokeLease("run-1", "released"), 0.0) == [Forbid("run-1", "released")]
    assert agent.is_ending
    assert agent.handle(tm.RevokeLease("run-1", "released"), 0.0) == []
    assert agent.session(LeaseReport("run-1", "closed"), 0.0) == [
        SendToTracker(tm.LeaseOver("me", "run-1", "released"))
    ]
    assert not agent.is_ending
    assert agent.handle(tm.RevokeLease("run-1", "again"), 0.0) == [
        SendToTracker(tm.LeaseOver("me", "run-1", "it is not held here"))
    ]


def test_a_lease_without_a_session_is_over_at_once() -> None:
    agent = registered()
    agent.handle(grant(), 0.0)
    agent.session(LeaseReport("run-1", "opened"), 0.0)
    agent.session(LeaseReport("run-1", "closed"), 0.0)
    assert agent.handle(tm.RevokeLease("run-1", "released"), 0.0) == [
        Forbid("run-1", "released"),
        SendToTracker(tm.LeaseOver("me", "run-1", "released")),
    ]


def test_a_newer_lease_waits_for_the_older_to_end() -> None:
    agent = registered()
    agent.handle(grant(1), 0.0)
    agent.session(LeaseReport("run-1", "opened"), 0.0)
    taken = "the tracker lent the device to another"
    assert agent.handle(grant(2), 0.0) == [Forbid("run-1", taken)]
    assert agent.handle(grant(2), 0.0) == []
    assert agent.session(LeaseReport("run-1", "closed"), 0.0) == [
        SendToTracker(tm.LeaseOver("me", "run-1", taken)),
        *allowed(2),
    ]


def test_a_waiting_newer_lease_can_be_revoked() -> None:
    agent = registered()
    agent.handle(grant(1), 0.0)
    agent.session(LeaseReport("run-1", "opened"), 0.0)
    agent.handle(grant(2), 0.0)
    assert agent.handle(tm.RevokeLease("run-2", "x"), 0.0) == [
        SendToTracker(tm.LeaseOver("me", "run-2", "it is not held here"))
    ]
    assert len(agent.session(LeaseReport("run-1", "closed"), 0.0)) == 1


def test_slots_are_independent() -> None:
    agent = registered(SPEC, DeviceSpec(slot=1, key="cpu"))
    agent.handle(grant(1, slot=0), 0.0)
    assert agent.handle(grant(2, slot=1), 0.0) == allowed(2)


def test_a_time_limit_ends_a_lease_without_the_tracker() -> None:
    agent = registered()
    assert agent.handle(grant(left_s=5.0), 0.0)[0] == Allow("run-1", "1-s", 5.0)
    assert agent.next_tick() <= 5.0
    actions = agent.tick(5.0)
    assert actions[:2] == [
        Forbid("run-1", "its time limit is reached"),
        SendToTracker(tm.LeaseOver("me", "run-1", "its time limit is reached")),
    ]


def test_a_lease_without_limit_is_let_in_anew_in_time() -> None:
    agent = registered()
    agent.handle(grant(), 0.0)
    renewed = [a for a in agent.tick(ALLOW_S * 0.6) if isinstance(a, Allow)]
    assert renewed == [Allow("run-1", "1-s", ALLOW_S * 1.6)]


def test_checks_and_standings() -> None:
    agent = registered()
    assert agent.handle(tm.CheckDevice(0), 0.0) == [RunCheck(0)]
    assert agent.handle(tm.CheckDevice(7), 0.0) == []
    slow = Health(False, "slow", True, Scores(1.0, 2.0), Scores(4.0, 2.0))
    said = tm.CheckResult("me", 0, False, "slow", True, Scores(1.0, 2.0), Scores(4.0, 2.0))
    assert agent.check_done(0, slow, 0.0) == [SendToTracker(said)]
    assert agent.suspect(0, "hot") == [SendToTracker(tm.SuspectDevice("me", 0, "hot"))]
    agent.handle(tm.KeepStanding(0, "quarantined", "smoke", True), 0.0)
    (said,) = agent.handle(tm.RegisterAgain(), 0.0)
    assert isinstance(said, SendToTracker)
    assert isinstance(said.message, tm.BoxHello)
    assert said.message.devices == (
        DeviceSpec(slot=0, key="cpu", standing="quarantined", reason="smoke", by_admin=True),
    )


def test_stopping_ends_everything() -> None:
    agent = registered()
    agent.handle(grant(), 0.0)
    assert agent.stop("bye") == [Forbid("run-1", "bye"), SendToTracker(tm.BoxBye("me", "bye"))]
    assert not agent.registered


def test_addresses() -> None:
    assert split_address("host:80") == ("host", 80)
    assert split_address("[::1]:80") == ("::1", 80)
    assert split_address("host", 9190) == ("host", 9190)
    for bad in ("host", "host:", ":80", "host:0", "host:99999", "host:x"):
        with pytest.raises(ConnectError, match="is no address"):
            split_address(bad)


def test_this_machine_as_a_device() -> None:
    fingerprint = local_fingerprint()
    spec = cpu_device(fingerprint, slot=2, key="lab", tags=("fast", "cpu"))
    assert (spec.slot, spec.key, spec.tags) == (2, "lab", ("fast", "cpu"))
    assert spec.fingerprint == fingerprint.device_class
    caps = Capabilities.of(spec.key, spec.tags, spec.attributes)
    for expr in ("lab", "cpu fast", "cores>=1", "memory>=64MiB", f"arch={fingerprint.cpu_name}", "virtual<=1"):
        assert parse_capability(expr).matches(caps)
    assert cpu_device(fingerprint).key == "cpu"


def test_cores_are_those_lent() -> None:
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        fingerprint = local_fingerprint()
    finally:
        os.sched_setaffinity(0, usable)
    assert (fingerprint.usable_cores, fingerprint.threads) == (1, 1)
    for lent in (fingerprint, msgspec.structs.replace(fingerprint, cores=64, usable_cores=0)):
        attributes = cpu_device(lent).attributes
        assert (attributes["cores"], attributes["threads"]) == (1, 1)
        assert not parse_capability("cores>=2").matches(Capabilities.of("cpu", (), attributes))


def test_a_check_at_the_start_is_told_once_the_box_is_welcome_and_to_every_later_tracker() -> None:
    agent = core()
    agent.checked_at_start(0, Health(True, "fine", scores=Scores(4.0, 2.0), baseline=Scores(4.0, 2.0)), 0.0)
    agent.tick(1.0)
    said = agent.handle(tm.BoxWelcome("run", 1.0), 3.0)
    assert said[1:] == [
        SendToTracker(tm.CheckResult("me", 0, True, "fine", False, Scores(4.0, 2.0), Scores(4.0, 2.0), 3.0))
    ]
    assert agent.handle(tm.BoxWelcome("run", 1.0), 4.0) == []
    agent.cut_off(5.0)
    assert tm.CheckResult in {
        type(a.message) for a in agent.handle(tm.BoxWelcome("new", 1.0), 6.0) if isinstance(a, SendToTracker)
    }


def test_a_box_that_fails_its_check_at_the_start_registers_as_suspect() -> None:
    agent = core()
    agent.checked_at_start(0, Health(False, "core 1 computed something wrong"), 0.0)
    (said,) = agent.tick(1.0)
    assert isinstance(said, SendToTracker)
    assert isinstance(said.message, tm.BoxHello)
    spec = said.message.devices[0]
    assert (spec.standing, spec.reason) == ("suspect", "core 1 computed something wrong")
