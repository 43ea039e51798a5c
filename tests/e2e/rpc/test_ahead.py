"""Connections to a box that are begun before the tracker has granted it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpc_server.box.server import Server
from rpc_server.box.supervisor_records import SupervisorConfig
from rpc_server.client.connect import box_status, open_session, opening
from rpc_server.client.connection import Connection
from rpc_server.client.dial import Ahead
from rpc_server.errors import ConnectError, LeaseRefused
from rpc_server.farm_link.leases import LeaseTable
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.messages import Ping
from rpc_server.wire.tracker_messages import BoxHello, GrantLease, LeaseAccepted, Offered, RequestDevice
from rpc_server.wire.tracker_records import DeviceSpec
from tests.kit.farm.supervisor import own_supervisor
from tests.kit.ports import free_port
from tracker.client import EarlySession
from tracker.farm_parts import Send
from tracker.state import TrackerState


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(port=0, silent=True) as running:
        yield running


def told(state: TrackerState, request: RequestDevice) -> list[tuple[str, type]]:
    return [(c.peer, type(c.message)) for c in state.handle(request, 0.0) if isinstance(c, Send)]


@pytest.mark.parametrize(
    ("address", "public", "ahead", "expected"),
    [
        ("box:1", "", True, [("box", GrantLease), ("ann", Offered)]),
        ("box:1", "", False, [("box", GrantLease)]),
        ("box:1", "its key", True, [("box", GrantLease)]),
        ("name@relay:1", "", True, [("box", GrantLease)]),
    ],
    ids=["asked for", "not asked for", "keys are used", "behind a relay"],
)
def test_who_is_told_where_a_device_is_offered(
    address: str, public: str, ahead: bool, expected: list[tuple[str, type]]
) -> None:
    state = TrackerState(run="run")
    state.handle(BoxHello("box", "box", address, (DeviceSpec(slot=0, key="cpu"),), public=public), 0.0)
    assert told(state, RequestDevice("ann", "r1", "ann", "cpu", ahead=ahead)) == expected


def test_a_request_that_had_to_wait_is_told_as_well() -> None:
    state = TrackerState(run="run")
    state.handle(RequestDevice("ann", "r1", "ann", "cpu", ahead=True), 0.0)
    commands = state.handle(BoxHello("box", "box", "box:1", (DeviceSpec(slot=0, key="cpu"),)), 1.0)
    sent = [c.message for c in commands if isinstance(c, Send)]
    (grant,) = [message for message in sent if isinstance(message, GrantLease)]
    assert Offered("r1", "box:1", grant.token) in sent
    assert state.handle(LeaseAccepted("box", grant.lease), 1.0)


def test_a_session_takes_the_connection_that_was_begun(server: Server) -> None:
    ahead = Ahead()
    ahead.go("127.0.0.1", server.port)
    with open_session("127.0.0.1", server.port, wait_s=60, ahead=ahead) as session:
        assert ahead.take() is None
        session.cpu().sync()


def test_one_that_leads_elsewhere_is_closed(server: Server) -> None:
    ahead = Ahead()
    ahead.go("127.0.0.1", free_port())
    connection = Connection("127.0.0.1", server.port, ahead=ahead)
    assert ahead.take() is None
    connection.request(Ping(), timeout_s=60)
    connection.close()


def test_what_went_wrong_ahead_is_tried_again() -> None:
    port = free_port()
    ahead = Ahead()
    ahead.go("127.0.0.1", port)
    with pytest.raises(ConnectError, match="nothing listens there"):
        Connection("127.0.0.1", port, timeout_s=60, ahead=ahead)
    assert ahead.take() is None


def test_what_was_said_ahead_opens_the_session(server: Server) -> None:
    ahead = Ahead()
    ahead.go("127.0.0.1", server.port)
    ahead.say(opening(wait_s=60, client="early"))
    while "early" not in box_status("127.0.0.1", server.port).sessions:
        time.sleep(0.01)
    with open_session("127.0.0.1", server.port, wait_s=60, client="early", ahead=ahead) as session:
        session.cpu().sync()
        assert session.status().sessions == ("early",)


def test_where_something_else_was_said_is_not_gone_on(server: Server) -> None:
    ahead = Ahead()
    ahead.go("127.0.0.1", server.port)
    ahead.say(opening(wait_s=60, client="early"))
    with open_session("127.0.0.1", server.port, wait_s=60, client="late", ahead=ahead) as session:
        assert session.status().sessions == ("late",)


def test_a_box_that_had_not_heard_of_the_lease_is_asked_again(tmp_path: Path) -> None:
    leases = LeaseTable()
    with own_supervisor(tmp_path, SupervisorConfig(box="lent", leases_required=True), leases) as port:
        ahead = Ahead()
        ahead.go("127.0.0.1", port)
        ahead.say(opening(token="token", wait_s=60))
        line = ahead.take()
        assert line is not None
        assert line.socket.poll(60_000)  # it is refused
        ahead._line = line
        leases.grant("lease", "token", time.monotonic() + 60)
        with open_session("127.0.0.1", port, token="token", wait_s=60, ahead=ahead) as session:
            session.cpu().sync()
        late = Ahead()
        late.go("127.0.0.1", port)
        late.say(opening(token="stale", wait_s=60))
        with pytest.raises(LeaseRefused):
            open_session("127.0.0.1", port, token="stale", wait_s=60, ahead=late)


def test_an_approach_follows_the_offers() -> None:
    early = EarlySession()
    early.to(Offered("r", "127.0.0.1:9", "token"))
    first = early.ahead
    early.to(Offered("r", "127.0.0.1:9", "token"))
    assert early.ahead is first is not None
    assert first.said == opening(token="token")
    early.to(Offered("r", "127.0.0.1:9", "newer"))
    assert first.take() is None
    early.to(Offered("r", "127.0.0.1:10", "newer"))
    assert early.ahead is not None
    assert early.ahead.place == ("127.0.0.1", 10)
    early.to(Offered("r", "no.such.host.invalid:9", "newest"))
    assert early.ahead is None or early.ahead.place is None
    early.close()
    assert early.ahead is None


def test_no_token_is_said_in_the_clear_to_a_box_whose_key_is_known(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    ring.trust("127.0.0.1:9", ring.create_identity("ann").public)
    early = EarlySession(ring)
    early.prepare()
    early.to(Offered("r", "127.0.0.1:9", "token"))
    assert early.ahead is not None
    assert early.ahead.place is None
    early.close()
