"""The lane: a client on the server's machine talks to its executor directly, and nobody else can."""

import contextlib
import socket
import time

import numpy as np
import pytest

from compiler.errors import ArgumentError
from compiler.runtime.core import ndarray as nd
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.client.connection import Connection
from rpc_server.errors import DeadlineExceeded, ExecutorCrashed, ProtocolError, SessionClosed
from rpc_server.wire.codec import Address, MessageKind
from rpc_server.wire.lane import Lane, LaneServer
from rpc_server.wire.messages import Measure, OpenSession, SessionOpened, SyncDevice, public_codec
from rpc_server.wire.stream import FrameStream, StreamClosed
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tests.kit.farm.rpc_kernels import kernel


@pytest.fixture(scope="module")
def server():
    with Server(port=0, sessions=4, warm=2) as running:
        yield running


def load(remote, kind):
    remote.upload(kernel(kind).to_bytes(), "k.tunefarm")
    return remote.load_module("k.tunefarm")["kernel"]


def arrays(remote, count=2):
    return [nd.array(np.full(1024, i, np.float32), remote.cpu()) for i in range(count)]


def opened(server):
    """A session of which nobody is on the lane."""
    connection = Connection("127.0.0.1", server.port)
    reply = connection.request(OpenSession("test", wait_s=60.0), timeout_s=60).body
    assert isinstance(reply, SessionOpened)
    return connection, reply


def test_a_local_client_is_on_the_lane(remote):
    assert remote._channel.lane is not None
    a, b = arrays(remote)
    load(remote, "add_one")(a, b)
    np.testing.assert_array_equal(b.numpy(), 1.0)


def test_calls_submitted_run_in_order(remote):
    add_one = load(remote, "add_one")
    a, b = arrays(remote)
    calls = [add_one.submit(*pair) for _ in range(500) for pair in ((a, b), (b, a))]
    assert calls[-1].result() is None
    assert [call.result() for call in calls[:3]] == [None] * 3
    np.testing.assert_array_equal(a.numpy(), 1000.0)


def test_a_submitted_call_raises_when_asked(remote):
    add_one = load(remote, "add_one")
    wrong = nd.array(np.zeros(8, np.float32), remote.cpu())
    call = add_one.submit(wrong, wrong)
    a, b = arrays(remote)
    add_one(a, b)  # the session goes on
    with pytest.raises(ArgumentError, match="shape"):
        call.result()


def test_trials_and_calls_take_turns(remote):
    add_one = load(remote, "add_one")
    artifact = kernel("add_one")
    a, b = arrays(remote)
    for _ in range(3):
        call = add_one.submit(a, b)
        result = remote.measure(
            MeasureRequest(artifact.digest, options=EvaluatorOptions(number=1, repeat=1)), [artifact]
        )
        assert result.failure is None
        assert call.result() is None
    np.testing.assert_array_equal(b.numpy(), 1.0)


def test_a_crash_on_the_lane_names_the_call(server):
    with open_session("127.0.0.1", server.port, wait_s=60) as remote:
        crash = load(remote, "segfault")
        with pytest.raises(ExecutorCrashed, match="SIGSEGV while running call of 'kernel'") as error:
            crash(*arrays(remote))
        assert "Segmentation fault" in error.value.detail["stderr"]
        with pytest.raises(SessionClosed):
            arrays(remote)


def test_a_crash_fails_everything_submitted(server):
    with open_session("127.0.0.1", server.port, wait_s=60) as remote:
        crash = load(remote, "segfault")
        arguments = arrays(remote)
        calls = [crash.submit(*arguments) for _ in range(3)]
        for call in calls:
            with pytest.raises((ExecutorCrashed, SessionClosed)):
                call.result()


def test_a_deadline_goes_through_the_supervisor(server):
    with open_session("127.0.0.1", server.port, wait_s=60, call_timeout=60.0) as remote:
        endless, arguments = load(remote, "forever"), arrays(remote)
        remote.call_timeout = 1.0  # only now: what went before may take a busy machine longer
        with pytest.raises(DeadlineExceeded):
            endless(*arguments)


def test_a_server_with_deadlines_for_all_calls_offers_no_lane():
    with Server(port=0, call_timeout_s=30.0) as server:
        connection, reply = opened(server)
        connection.close()
        assert (reply.lane, reply.lane_token) == ("", b"")


# -- strangers --------------------------------------------------------------------------------------------------


def test_a_wrong_token_is_turned_away(server):
    connection, reply = opened(server)
    with contextlib.closing(connection):
        stranger = Lane(reply.lane, b"x" * len(reply.lane_token))
        with pytest.raises(StreamClosed):
            stranger.wait(stranger.send(SyncDevice("cpu", 0)))
        client = Lane(reply.lane, reply.lane_token)
        client.wait(client.send(SyncDevice("cpu", 0)))
        client.close()


def test_strangers_that_say_nothing_hold_nobody_up():
    lane = LaneServer()
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(12)]
    for number, stranger in enumerate(silent):
        stranger.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            stranger.connect("\0" + lane.address)
            stranger.send(b"?" * number)
        assert not lane.look()
    client = Lane(lane.address, lane.token)
    assert any(lane.look() for _ in range(20))
    assert lane.stream is not None
    with pytest.raises(StreamClosed):  # one client, and no more
        Lane(lane.address, lane.token)
    client.close()
    for stranger in silent:
        stranger.close()


@pytest.mark.parametrize(
    "frames",
    [
        public_codec.encode(SyncDevice("cpu", 0), MessageKind.NOTE, address=Address.EXECUTOR),
        public_codec.encode(SyncDevice("cpu", 0), MessageKind.REQUEST, address=Address.PEER),
        public_codec.encode(
            Measure(MeasureRequest("0" * 64)), MessageKind.REQUEST, request_id=1, address=Address.TRIAL
        ),
        [b"no header", b""],
    ],
)
def test_only_calls_travel_on_the_lane(server, frames):
    """Anything else closes it; the session lives on, through the supervisor."""
    connection, reply = opened(server)
    with contextlib.closing(connection):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect("\0" + reply.lane)
        sock.sendall(reply.lane_token)
        stream = FrameStream(sock)
        stream.send(frames)
        with pytest.raises(StreamClosed):
            stream.receive()
        connection.request(SyncDevice("cpu", 0), address=Address.EXECUTOR, timeout_s=60)


def test_a_client_elsewhere_finds_no_lane():
    with pytest.raises(StreamClosed):
        Lane("tunefarm-of-another-machine", b"0" * 32)


def test_an_answer_nobody_asked_for(server):
    lane_server = LaneServer()
    client = Lane(lane_server.address, lane_server.token)
    end = time.monotonic() + 60
    while not lane_server.look():
        assert time.monotonic() < end
    number = client.send(SyncDevice("cpu", 0))
    lane_server.stream.send(public_codec.encode(SyncDevice("cpu", 0), MessageKind.REPLY, request_id=number + 5))
    with pytest.raises(ProtocolError, match="which was not sent"):
        client.wait(number)
