"""A client's leases and requests, message by message."""

from __future__ import annotations

import gc

import pytest

from compiler.errors import TunefarmError
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import LeaseGrant
from tracker.errors import LeaseLostError, NoDeviceError
from tracker.holdings import Holdings, Lease, Pending


class Line(Holdings):
    """Holdings whose posts are kept in `said`."""

    def __init__(self) -> None:
        super().__init__("me")
        self.said: list[tm.FromClient] = []
        self.post = self.said.append

    def asked(self, request: str = "r1", owner: object = None) -> Pending:
        return self.ask(tm.RequestDevice("me", request, "ann", "cpu"), owner)

    def held(self, request: str = "r1") -> Lease:
        pending = self.asked(request)
        self.handle(tm.Granted(request, grant(f"run-{request}")))
        assert pending.is_over
        assert pending.lease is not None
        self.said.clear()
        return pending.lease


def grant(lease: str = "run-r1") -> LeaseGrant:
    return LeaseGrant(
        lease=lease,
        token=f"1-{lease}",
        device="a/0",
        slot=0,
        key="cpu",
        address="[::1]:9091",
        fingerprint="f",
        attributes={"cores": 8},
        renew_s=1.0,
        grace_s=10.0,
    )


def test_a_request_is_said_again_until_granted_then_its_lease_is_renewed() -> None:
    line = Line()
    pending = line.asked()
    assert line.said == [pending.asked]
    assert line.beat() == [pending.asked]
    place = tm.Queued("r1", 2, 3, 1)
    line.handle(place)
    assert pending.place == place
    line.handle(tm.Granted("r1", grant()))
    assert pending.lease is not None
    assert (pending.lease.host, pending.lease.port, pending.lease.is_held) == ("::1", 9091, True)
    assert line.beat() == [tm.RenewLeases("me", (("run-r1", "1-run-r1"),))]


def test_a_refusal_becomes_its_error() -> None:
    line = Line()
    pending = line.asked()
    line.handle(tm.Refused("r1", "no_device", "none", "wait"))
    assert pending.is_over
    assert isinstance(pending.error, NoDeviceError)
    assert pending.error.hint == "wait"
    assert line.beat() == []


def test_a_release_is_said_until_it_is_heard() -> None:
    line = Line()
    lease = line.held()
    lease.release("broken")
    release = tm.ReleaseLease("me", "run-r1", "1-run-r1", "broken")
    assert line.said == [release]
    assert not lease.is_held
    lease.release()
    assert line.said == [release]
    assert line.beat() == [release]
    line.handle(tm.LeaseReleased("run-r1"))
    assert line.beat() == []
    with pytest.raises(LeaseLostError, match="it was released"):
        lease.check()


def test_a_release_nobody_hears_is_given_up_in_the_end() -> None:
    line = Line()
    line.held().release()
    beats = 0
    while line.beat():
        beats += 1
    assert 5 <= beats <= 60


def test_a_lost_lease_tells_who_watches_and_is_not_renewed() -> None:
    line = Line()
    lease = line.held()
    told: list[str] = []
    lease.on_lost(told.append)
    line.handle(tm.LeaseLost("run-r1", "box a is gone"))
    assert told == ["box a is gone"]
    lease.on_lost(told.append)
    assert len(told) == 2
    assert line.beat() == []
    with pytest.raises(LeaseLostError, match="box a is gone"):
        lease.check()
    lease.release()
    assert line.said == []
    line.handle(tm.LeaseLost("run-r1", "again"))
    assert len(told) == 2


def test_a_grant_nobody_waits_for_goes_back() -> None:
    line = Line()
    pending = line.asked()
    line.give_up(pending)
    assert line.said[-1] == tm.CancelRequest("me", "r1")
    line.handle(tm.Granted("r1", grant()))
    assert line.said[-1] == tm.ReleaseLease("me", "run-r1", "1-run-r1")


def test_a_grant_said_twice_is_one_lease() -> None:
    line = Line()
    lease = line.held()
    line.handle(tm.Granted("r1", grant()))
    assert line.said == []
    assert lease.is_held


def test_giving_up_what_has_just_come_releases_it() -> None:
    line = Line()
    pending = line.asked()
    line.handle(tm.Granted("r1", grant()))
    line.give_up(pending)
    assert isinstance(line.said[-1], tm.ReleaseLease)


def test_a_finalizer_releases_on_the_next_beat() -> None:
    line = Line()
    lease = line.held()
    lease.release_later()
    assert lease.is_held
    assert [type(message) for message in line.beat()] == [tm.ReleaseLease]
    assert not lease.is_held


def test_a_lease_keeps_its_owner_alive() -> None:
    class Owner:
        pass

    line = Line()
    pending = line.asked(owner=Owner())
    line.handle(tm.Granted("r1", grant()))
    lease = pending.lease
    del pending
    gc.collect()
    assert lease is not None
    assert isinstance(lease.owner, Owner)


def test_closing_ends_waits_and_leases() -> None:
    line = Line()
    lease = line.held("r1")
    pending = line.asked("r2")
    line.close(TunefarmError("closed"))
    assert pending.is_over
    assert pending.error is not None
    assert not lease.is_held
    assert line.beat() == []
    with lease:
        pass
