"""Connections to a box that are begun before the tracker has granted it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from rpc_server.client import open_session
from rpc_server.connection import Connection
from rpc_server.dial import Ahead
from rpc_server.errors import ConnectError
from rpc_server.messages import Ping
from rpc_server.server import Server
from rpc_server.tracker_messages import BoxHello, GrantLease, LeaseAccepted, Offered, RequestDevice
from rpc_server.tracker_records import DeviceSpec
from tracker.approach import Approach
from tracker.farm import Send
from tracker.state import TrackerState


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(port=0, silent=True) as running:
        yield running


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


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
    assert Offered("r1", "box:1") in sent
    (grant,) = [message for message in sent if isinstance(message, GrantLease)]
    assert state.handle(LeaseAccepted("box", grant.lease), 1.0)


def test_a_session_takes_the_connection_that_was_begun(server: Server) -> None:
    ahead = Ahead("127.0.0.1", server.port)
    with open_session("127.0.0.1", server.port, wait_s=60, ahead=ahead) as session:
        assert ahead.take() is None
        session.cpu().sync()


def test_one_that_leads_elsewhere_is_closed(server: Server) -> None:
    ahead = Ahead("127.0.0.1", free_port())
    connection = Connection("127.0.0.1", server.port, ahead=ahead)
    assert ahead.take() is None
    connection.request(Ping(), timeout_s=60)
    connection.close()


def test_what_went_wrong_ahead_is_tried_again() -> None:
    port = free_port()
    ahead = Ahead("127.0.0.1", port)
    with pytest.raises(ConnectError, match="nothing listens there"):
        Connection("127.0.0.1", port, timeout_s=60, ahead=ahead)
    assert ahead.take() is None


def test_an_approach_follows_the_offers() -> None:
    approach = Approach()
    approach.to("127.0.0.1:9")
    first = approach.ahead
    approach.to("127.0.0.1:9")
    assert approach.ahead is first is not None
    approach.to("127.0.0.1:10")
    assert first.take() is None
    assert approach.ahead is not None
    assert approach.ahead.place == ("127.0.0.1", 10)
    approach.to("no.such.host.invalid:9")
    assert approach.ahead is None
    approach.close()
