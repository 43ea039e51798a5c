"""The tracker's rules for leases and requests: lists of events in, lists of commands out."""

from __future__ import annotations

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import LeaseGrant
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tracker.state import Tick

# A device's way to a client and back


def test_a_lease_from_request_to_end() -> None:
    script = Script()
    assert script(hello()) == [("box-a", tm.BoxWelcome("run", 1.0))]
    offer = tm.GrantLease(lease="run-1", slot=0, token="1-s1", number=1, user="ann", client="c1", left_s=None)
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
    assert script(tm.LeaseAccepted("box-a", "run-1")) == [("c1", tm.Granted("r1", grant))]
    assert script(tm.RenewLeases("c1", (("run-1", "1-s1"),)), 5.0) == [("c1", tm.Renewed("run"))]
    assert script(tm.ReleaseLease("c1", "run-1", "1-s1")) == [
        ("c1", tm.LeaseReleased("run-1")),
        ("box-a", tm.RevokeLease("run-1", "released")),
    ]
    assert script.state_of("a/0") == "leased"
    assert script(tm.LeaseOver("box-a", "run-1")) == []
    assert script.state_of("a/0") == "ready"
    assert script.kinds() == ["registered", "granted", "active", "ending", "ended"]
    assert script.device("a/0").busy_s == 5.0
    assert not script.state.farm.clients


def test_the_device_goes_to_the_next_only_when_its_box_is_done() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(ask("r2", "c2")) == [("c2", tm.Queued("r2", 1, 1, 1, None))]
    script(tm.ReleaseLease("c1", grant.lease, grant.token))
    ((peer, message),) = script(tm.LeaseOver("box-a", grant.lease))
    assert peer == "box-a"
    assert isinstance(message, tm.GrantLease)
    assert (message.lease, message.number, message.client) == ("run-2", 2, "c2")


def test_asking_again_is_a_sign_of_life_and_gives_a_lost_grant_again() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    assert script(ask()) == [("c1", tm.Granted("r1", grant))]
    script(ask("r2", "c2"))
    ((_, place),) = script(ask("r2", "c2"), 1.0)
    assert isinstance(place, tm.Queued)
    ((_, refused),) = script(ask("r2", "thief"))
    assert isinstance(refused, tm.Refused)


def test_a_request_is_refused_when_its_wait_is_over() -> None:
    script = Script()
    script(hello())
    lent(script)
    script(ask("r2", "c2", wait_s=3.0))
    script(tm.BoxHeartbeat("box-a", ("run-1",)), 1.9)
    script(tm.BoxHeartbeat("box-a", ("run-1",)), 1.0)
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
    assert script(tm.CancelRequest("thief", "r2")) == []
    assert script(tm.CancelRequest("c2", "r2")) == []
    assert script(tm.CancelRequest("c1", "r1")) == [("box-a", tm.RevokeLease("run-1", "cancelled"))]
    assert script(tm.LeaseOver("box-a", "run-1")) == []
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
    script(tm.RenewLeases("c1", ((grant.lease, grant.token),)), 8.0)
    assert script(Tick(), 9.9) == []
    lost = "its client was silent for 10 s"
    assert script(Tick(), 0.2) == [
        ("c1", tm.LeaseLost(grant.lease, lost)),
        ("box-a", tm.RevokeLease(grant.lease, lost)),
    ]
    script(tm.LeaseOver("box-a", grant.lease))
    assert script.state_of("a/0") == "ready"
    assert script(tm.RenewLeases("c1", ((grant.lease, grant.token),)))[0] == (
        "c1",
        tm.LeaseLost(grant.lease, "it has ended or expired"),
    )


def test_a_lease_ends_at_its_time_limit_though_renewed() -> None:
    script = Script(box_timeout_s=100.0, late_s=100.0)
    script(hello())
    grant = lent(script, session_timeout_s=12.0)
    assert grant.session_timeout_s == 12.0
    for _ in range(3):
        script(tm.RenewLeases("c1", ((grant.lease, grant.token),)), 4.0)
    sent = script(Tick(), 0.1)
    assert ("c1", tm.LeaseLost(grant.lease, "its time limit is reached")) in sent


def test_a_client_that_leaves_gives_everything_back() -> None:
    script = Script()
    script(hello())
    grant = lent(script)
    script(ask("r2", "c1"))
    assert script(tm.ClientBye("c1")) == [("box-a", tm.RevokeLease(grant.lease, "its client left"))]
    script(tm.LeaseOver("box-a", grant.lease))
    assert script.state_of("a/0") == "ready"
    assert not script.state.farm.clients
    assert script(tm.ClientBye("c1")) == []


# Old tokens


def test_an_old_token_is_refused_and_harms_nobody() -> None:
    script = Script()
    script(hello())
    old = lent(script)
    script(tm.ReleaseLease("c1", old.lease, old.token))
    script(tm.LeaseOver("box-a", old.lease))
    new = lent(script, "r2", "c2")
    assert script(tm.ReleaseLease("c1", old.lease, old.token)) == [("c1", tm.LeaseReleased(old.lease))]
    wrong = tm.LeaseLost(new.lease, "the token is not this lease's")
    assert script(tm.ReleaseLease("c1", new.lease, old.token)) == [("c1", wrong)]
    assert script(tm.RenewLeases("c1", ((new.lease, old.token),)))[0] == ("c1", wrong)
    assert script.device("a/0").lease == new.lease
    assert script.kinds()[-2:] == ["stale_token", "stale_token"]


def test_numbers_grow_past_what_a_box_has_seen() -> None:
    script = Script()
    script(hello(high=41))
    assert lent(script).token == "42-s1"


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
    script(tm.ReleaseLease("c1", grant.lease, grant.token), 20.0)
    script(tm.LeaseOver("box-a", grant.lease))
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
    assert any(isinstance(m, tm.Queued) for _, m in script(ask("other", "c2")))
