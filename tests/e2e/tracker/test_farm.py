"""A tracker and boxes as processes of their own: devices lent, used and given back."""

from __future__ import annotations

import gc
import os
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.errors import ConnectError, LeaseRefused, ProtocolError, RPCError, ServerStartError, SessionClosed
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.tracker_messages import Queued, RequestDevice, to_tracker
from tests.kit.farm.tracker import CALM, PATIENCE_S, Farm, check_log, running, states, until, use
from tests.kit.ports import free_port
from tests.kit.threads import in_threads
from tracker.client import TrackerSession, connect_tracker
from tracker.errors import LeaseLostError, NoDeviceError, UnknownDeviceError
from tracker.server import Tracker, TrackerOptions, serve


@pytest.fixture(scope="module")
def shared() -> Iterator[Farm]:
    with running("one", "two", timing=CALM) as farm:
        yield farm


# Lending


def test_request_use_and_return(shared: Farm) -> None:
    session = shared.connect()
    with session.request("cpu cores>=1") as remote:
        use(remote)
        (held,) = [device for device in session.devices() if device.state == "leased"]
        assert (held.user, held.box) == ("ann", remote.box)
        assert session.summary()["queue_info"]["cpu"] == {"free": 1, "pending": 0}
    until(lambda: set(states(session).values()) == {"ready"})
    summary = session.summary()
    assert sorted(box["key"] for box in summary["server_info"]) == ["server:cpu", "server:cpu"]
    assert {box["addr"] for box in summary["server_info"]} == {("127.0.0.1", box.port) for box in shared.boxes.values()}
    assert summary["queue_info"] == {"cpu": {"free": 2, "pending": 0}}
    text = session.text_summary()
    assert "one/0" in text
    assert "ready" in text
    kinds = [event.kind for event in session.events()]
    assert kinds.count("registered") == 2
    assert {"granted", "active", "ending", "ended"} <= set(kinds)
    check_log(session)


def test_a_session_dropped_by_its_holder_gives_the_device_back(shared: Farm) -> None:
    session = shared.connect()
    remote = session.request("device=one/0")
    use(remote)
    assert states(session)["one/0"] == "leased"
    gc.disable()  # dropping the last reference is enough
    try:
        del remote
        with session.request("device=one/0", wait_s=PATIENCE_S) as again:
            use(again)
    finally:
        gc.enable()


def test_a_session_may_be_collected_whatever_a_thread_is_doing(shared: Farm) -> None:
    session = shared.connect()
    dropped = [session.request("device=one/0")]

    def collect() -> None:
        with session._holdings._lock, session._channel._turn_lock:
            dropped.clear()
            gc.collect()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    until(lambda: states(session)["one/0"] == "ready")


def test_what_a_device_is_travels_with_the_lease(shared: Farm) -> None:
    session = shared.connect()
    with session.lease("cpu", wait_s=PATIENCE_S) as lease:
        (device,) = [d for d in session.devices() if d.id == lease.device]
        assert lease.attributes == device.attributes
        assert lease.fingerprint == device.fingerprint
        assert lease.fingerprint
        arch, memory = lease.attributes["arch"], lease.attributes["memory"]
        assert isinstance(memory, int)
    with session.lease(f"arch={arch} memory>={memory}", wait_s=PATIENCE_S):
        pass


def test_nothing_opens_without_a_lease_or_with_an_old_one(shared: Farm) -> None:
    session = shared.connect()
    lease = session.lease("device=one/0", wait_s=PATIENCE_S)
    with lease.open_session() as remote:
        use(remote)
    with pytest.raises(LeaseRefused):
        open_session(lease.host, lease.port)
    lease.release()
    with session.lease("device=one/0", wait_s=PATIENCE_S) as newer:
        assert newer.token != lease.token
        with pytest.raises(LeaseRefused):
            open_session(lease.host, lease.port, token=lease.token)
        with newer.open_session() as remote:
            use(remote)
    with pytest.raises(LeaseLostError, match="it was released"):
        lease.open_session()


def test_releasing_a_lease_ends_its_session(shared: Farm) -> None:
    session = shared.connect()
    lease = session.lease("cpu", wait_s=PATIENCE_S)
    remote = lease.open_session()
    lease.release()
    with pytest.raises(SessionClosed, match="lease ended"):
        until(lambda: remote.upload(b"x", "x") is not None)
    remote.close()


def test_more_clients_than_devices_take_turns(shared: Farm) -> None:
    sessions = [shared.connect(user) for user in ("ann", "bob")]
    inside: list[str] = []
    most: list[int] = []
    lock = threading.Lock()

    def work(session: TrackerSession) -> None:
        for _ in range(2):
            with session.request("cpu") as remote:
                with lock:
                    assert remote.box not in inside
                    inside.append(remote.box)
                    most.append(len(inside))
                remote.upload(b"x", "x")
                with lock:
                    inside.remove(remote.box)

    in_threads(work, [sessions[i % 2] for i in range(5)], PATIENCE_S)
    assert len(most) == 10
    assert max(most) <= 2
    check_log(sessions[0])


def test_a_request_nobody_can_serve_waits_and_says_why_in_the_end(shared: Farm) -> None:
    session = shared.connect()
    places: list[Queued] = []
    with pytest.raises(NoDeviceError) as caught:
        session.lease("sm_90", wait_s=3.0, on_queued=places.append)
    assert (places[0].position, places[0].devices) == (1, 0)
    assert "no registered device matches 'sm_90'" in caught.value.message
    assert "keys registered: cpu (2)" in caught.value.message
    assert caught.value.hint is not None
    with session.lease("cpu"), session.lease("cpu"):
        with pytest.raises(NoDeviceError, match=r"number 1 of 1 in the queue"):
            session.lease("cpu", wait_s=1.0)
        with pytest.raises(NoDeviceError):
            session.request("cpu", wait_s=0)
    assert [queue for queue in session.queue() if queue.pending] == []


def test_a_queued_client_gets_the_device_when_it_is_free(shared: Farm) -> None:
    session = shared.connect()
    leases = [session.lease("cpu", wait_s=PATIENCE_S) for _ in range(2)]
    got: list[str] = []

    def wait() -> None:
        with shared.connect("bob").lease("cpu", wait_s=PATIENCE_S) as lease:
            got.append(lease.device)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: any(queue.pending for queue in session.queue()))
    leases[0].release()
    thread.join(PATIENCE_S)
    assert got == [leases[0].device]
    leases[1].release()


def test_sharing_is_said_only_to_trackers_that_share(shared: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_question: object) -> None:  # as a tracker does that does not know the question
        raise ProtocolError("not a message of this protocol")

    said: list[bool] = []
    for older in (False, True):
        session = shared.connect()
        if older:
            monkeypatch.setattr(session, "_ask", refuse)
        turn = session.ask("cpu", shares=True)
        said.append(turn._pending.asked.shares)
        lease = turn.wait(PATIENCE_S)
        assert lease is not None
        lease.release()
    assert said == [True, False]


def test_a_time_limit_ends_lease_and_session(shared: Farm) -> None:
    session = shared.connect()
    lease = session.lease("cpu", wait_s=PATIENCE_S, session_timeout_s=8.0)
    remote = lease.open_session()
    until(lambda: lease.lost is not None)
    assert "time limit" in str(lease.lost)
    with pytest.raises(RPCError):
        remote.upload(b"x", "x")
    remote.close()


def test_draining_and_quarantine(shared: Farm) -> None:
    session = shared.connect()
    try:
        assert session.drain("one", "moving it") == ("one/0",)
        with session.lease("cpu", wait_s=PATIENCE_S) as lease:
            assert lease.device == "two/0"
            told: list[str] = []
            lease.on_lost(told.append)
            session.quarantine("two/0", "smoke")
            until(lambda: bool(told))
            assert "quarantined: smoke" in told[0]
        assert states(session) == {"one/0": "draining", "two/0": "quarantined"}
        (device,) = [d for d in session.devices() if d.id == "two/0"]
        assert device.reason == "smoke"
    finally:
        session.undrain("one")
        session.unquarantine("two/0")
    until(lambda: set(states(session).values()) == {"ready"})
    assert session.check("one") == ("one/0",)
    with pytest.raises(UnknownDeviceError, match="'three'"):
        session.drain("three")


def test_a_forked_child_is_told_to_connect_itself(shared: Farm) -> None:
    session = shared.connect()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            session.devices()
        except ConnectError as error:
            os.write(write_end, error.message.encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write_end)
    assert b"another process" in os.read(read_end, 1000)
    os.close(read_end)
    assert session.devices()


# Starting, and peers that do not play by the rules


def test_no_tracker_there_is_a_clear_error() -> None:
    port = free_port()
    with pytest.raises(ConnectError) as caught:
        connect_tracker("127.0.0.1", port)
    assert f"127.0.0.1:{port}" in caught.value.message
    assert caught.value.hint is not None
    assert f"tunefarm tracker --port {port}" in caught.value.hint
    with pytest.raises(ConnectError, match="no-such-host"):
        connect_tracker("no-such-host.invalid", 9190)


def test_what_is_no_tracker_is_named_as_such(shared: Farm) -> None:
    with pytest.raises(ConnectError, match="no tracker"):
        connect_tracker("127.0.0.1", shared.boxes["one"].port, timeout_s=60)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConnectError, match="does not speak"):
            connect_tracker("127.0.0.1", port, timeout_s=1.0)


def test_a_port_in_use_a_public_host_and_a_bad_port_file_are_refused(shared: Farm, tmp_path: Path) -> None:
    with pytest.raises(ServerStartError, match=f"port {shared.tracker.port} on 127.0.0.1 is in use"):
        Tracker(port=shared.tracker.port, port_end=0, silent=True)
    with pytest.raises(ServerStartError, match="whoever reaches it"):
        serve(TrackerOptions(host="0.0.0.0", port=0))
    with pytest.raises(ServerStartError, match="unknown host"):
        serve(TrackerOptions(host="no-such-host.invalid"))
    with pytest.raises(ServerStartError, match="cannot write"):
        serve(TrackerOptions(port=0, port_file=str(tmp_path / "no" / "such" / "folder")))


def test_the_next_free_port_and_the_port_file(shared: Farm, tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    first = shared.tracker.port
    if first > 65000:
        pytest.skip("no room above the port")
    with Tracker(port=first, port_end=first + 200, port_file=str(port_file), silent=True) as tracker:
        assert tracker.port > first
        assert port_file.read_text() == f"{tracker.port}\n"


def test_an_open_tracker_and_box_find_each_others_addresses() -> None:
    with Tracker(host="0.0.0.0", port=0, insecure=True, silent=True) as tracker:
        box = Server(
            host="0.0.0.0",
            port=0,
            tracker_addr=("127.0.0.1", tracker.port),
            key="cpu",
            name="open",
            insecure=True,
            silent=True,
        )
        try:
            with connect_tracker("127.0.0.1", tracker.port, timeout_s=60) as session:
                with session.request("cpu", wait_s=PATIENCE_S) as remote:
                    use(remote)
                (device,) = session.devices()
                assert device.address == f"127.0.0.1:{box.port}"
        finally:
            box.terminate()


@pytest.fixture
def forgetful() -> Iterator[Farm]:
    """A tracker that soon takes a lease from a client that never spoke again, such as one that noise made up."""
    with running("one", timing=replace(CALM, grace_s=10.0)) as farm:
        yield farm


def test_noise_harms_nobody(forgetful: Farm) -> None:
    session = forgetful.connect()
    remote = session.request("cpu")
    rng = random.Random(7)
    honest = to_tracker.encode(RequestDevice("p", "r", "u", "cpu", wait_s=0.0), MessageKind.NOTE)
    context = zmq.Context()
    try:
        for _ in range(20):
            sock = context.socket(zmq.DEALER)
            sock.setsockopt(zmq.LINGER, 200)
            sock.connect(f"tcp://127.0.0.1:{forgetful.tracker.port}")
            for _ in range(30):
                frames = [bytearray(frame) for frame in honest]
                for _ in range(rng.randrange(1, 4)):
                    frame = rng.choice(frames)
                    frame[rng.randrange(len(frame))] = rng.randrange(256)
                match rng.randrange(4):
                    case 0:
                        frames.append(bytearray(rng.randbytes(rng.randrange(3000))))
                    case 1:
                        frames = frames[: rng.randrange(3)] or [bytearray()]
                    case 2:
                        frames[1] = bytearray(rng.randbytes(rng.randrange(200)))
                    case _:
                        pass
                sock.send_multipart(frames)
            sock.close()
        with socket.create_connection(("127.0.0.1", forgetful.tracker.port)) as plain:
            plain.sendall(rng.randbytes(5000))
    finally:
        context.term()
    assert forgetful.tracker.is_alive
    use(remote)
    remote.close()
    until(lambda: set(states(session).values()) == {"ready"})
