"""A tracker and boxes as processes of their own: devices lent, used and given back, and whatever dies."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import zmq
from rpc_kernels import kernel

from compiler.runtime import ndarray as nd
from rpc_server.client import open_session
from rpc_server.errors import ConnectError, LeaseRefused, RPCError, ServerStartError, SessionClosed
from rpc_server.server import Server
from rpc_server.session import RPCSession
from rpc_server.tracker_messages import Queued, RequestDevice, to_tracker
from rpc_server.wire import Kind
from tracker.client import TrackerSession, connect_tracker
from tracker.errors import LeaseLostError, NoDeviceError, TrackerError, UnknownDeviceError
from tracker.farm import Timing
from tracker.log import LogKind
from tracker.server import Tracker, TrackerOptions, serve

ROOT = Path(__file__).resolve().parents[2]
TIMING = Timing(late_s=3.0, box_timeout_s=4.0, grace_s=2.5, settle_s=8.0)
PATIENCE_S = 40.0


@dataclass
class Farm:
    tracker: Tracker
    boxes: dict[str, Server] = field(default_factory=dict)
    sessions: list[TrackerSession] = field(default_factory=list)
    killed: list[Server] = field(default_factory=list)

    def start_box(self, name: str, key: str = "cpu", **options: object) -> Server:
        box = Server(
            port=0,
            tracker_addr=("127.0.0.1", self.tracker.port),
            key=key,
            name=name,
            silent=True,
            **options,
        )
        self.boxes[name] = box
        return box

    def connect(self, user: str = "ann") -> TrackerSession:
        session = connect_tracker("127.0.0.1", self.tracker.port, user=user)
        self.sessions.append(session)
        return session

    def restart_tracker(self) -> None:
        os.kill(self.tracker.pid, signal.SIGKILL)
        self.tracker.terminate()
        self.tracker = Tracker(port=self.tracker.port, timing=TIMING, silent=True)

    def kill_box(self, name: str) -> None:
        box = self.boxes.pop(name)
        os.kill(box.pid, signal.SIGKILL)
        self.killed.append(box)

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        for box in [*self.boxes.values(), *self.killed]:
            box.terminate()
        self.tracker.terminate()


@contextlib.contextmanager
def running(*names: str) -> Iterator[Farm]:
    farm = Farm(Tracker(port=0, timing=TIMING, silent=True))
    try:
        for name in names:
            farm.start_box(name)
        watcher = farm.connect("watcher")
        until(lambda: {d.box for d in watcher.devices() if d.state == "ready"} == set(names))
        yield farm
    finally:
        farm.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Farm]:
    with running("one", "two") as farm:
        yield farm


@pytest.fixture
def farm() -> Iterator[Farm]:
    with running("one", "two") as farm:
        yield farm


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def states(session: TrackerSession) -> dict[str, str]:
    return {device.id: device.state for device in session.devices()}


def use(remote: RPCSession) -> None:
    """Upload a kernel, run it and look at what it did."""
    remote.upload(kernel("add_one", 16).to_bytes(), "add_one.tunefarm")
    module = remote.load_module("add_one.tunefarm")
    given = np.arange(16, dtype="float32")
    a, b = nd.array(given, remote.cpu()), nd.empty((16,), "float32", remote.cpu())
    module["kernel"](a, b)
    np.testing.assert_array_equal(b.numpy(), given + 1)


def check_log(session: TrackerSession) -> None:
    """From granted or restored to ended, one device has one lease."""
    holders: dict[str, str] = {}
    for event in session.events(limit=100_000):
        if event.kind in (LogKind.GRANTED, LogKind.RESTORED):
            assert event.device not in holders
            holders[event.device] = event.lease
        elif event.kind == LogKind.ENDED:
            assert holders.pop(event.device) == event.lease


def client_process(farm: Farm, then: str) -> subprocess.Popen[str]:
    """Another process that requests a device, says so, and does `then`."""
    code = (
        "import sys, time\n"
        "from tracker.client import connect_tracker\n"
        f"session = connect_tracker('127.0.0.1', {farm.tracker.port}, user='other')\n"
        "remote = session.request('cpu')\n"
        "print(remote.box, flush=True)\n"
        f"{then}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() in farm.boxes
    return process


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
    assert states(session)["one/0"] == "leased"
    del remote
    with session.request("device=one/0", wait_s=PATIENCE_S) as again:
        use(again)


def test_what_a_device_is_travels_with_the_lease(shared: Farm) -> None:
    session = shared.connect()
    with session.lease("cpu", wait_s=10.0) as lease:
        (device,) = [d for d in session.devices() if d.id == lease.device]
        assert lease.attributes == device.attributes
        assert lease.fingerprint == device.fingerprint
        assert lease.fingerprint
        arch, memory = lease.attributes["arch"], lease.attributes["memory"]
        assert isinstance(memory, int)
    with session.lease(f"arch={arch} memory>={memory}", wait_s=10.0):
        pass


def test_nothing_opens_without_a_lease_or_with_an_old_one(shared: Farm) -> None:
    session = shared.connect()
    lease = session.lease("device=one/0", wait_s=10.0)
    with lease.open_session() as remote:
        use(remote)
    with pytest.raises(LeaseRefused):
        open_session(lease.host, lease.port)
    lease.release()
    with session.lease("device=one/0", wait_s=10.0) as newer:
        assert newer.token != lease.token
        with pytest.raises(LeaseRefused):
            open_session(lease.host, lease.port, token=lease.token)
        with newer.open_session() as remote:
            use(remote)
    with pytest.raises(LeaseLostError, match="it was released"):
        lease.open_session()


def test_releasing_a_lease_ends_its_session(shared: Farm) -> None:
    session = shared.connect()
    lease = session.lease("cpu", wait_s=10.0)
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
    errors: list[BaseException] = []

    def work(session: TrackerSession) -> None:
        try:
            for _ in range(4):
                with session.request("cpu") as remote:
                    with lock:
                        assert remote.box not in inside
                        inside.append(remote.box)
                        most.append(len(inside))
                    remote.upload(b"x", "x")
                    with lock:
                        inside.remove(remote.box)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(sessions[i % 2],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not errors
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
    leases = [session.lease("cpu", wait_s=10.0) for _ in range(2)]
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


def test_a_time_limit_ends_lease_and_session(shared: Farm) -> None:
    session = shared.connect()
    lease = session.lease("cpu", wait_s=10.0, session_timeout_s=1.0)
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
        with session.lease("cpu", wait_s=10.0) as lease:
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


# Deaths


def test_a_killed_clients_device_returns(farm: Farm) -> None:
    session = farm.connect()
    process = client_process(farm, "time.sleep(600)")
    assert "leased" in states(session).values()
    process.kill()
    process.wait()
    until(lambda: set(states(session).values()) == {"ready"})
    assert any("its client was silent" in event.text for event in session.events())
    assert process.stdout is not None
    process.stdout.close()


def test_a_client_that_just_ends_gives_its_device_back_at_once(farm: Farm) -> None:
    session = farm.connect()
    process = client_process(farm, "sys.exit(0)")
    assert process.wait(PATIENCE_S) == 0
    until(lambda: set(states(session).values()) == {"ready"})
    assert not any("was silent" in event.text for event in session.events())
    assert process.stdout is not None
    process.stdout.close()


def test_a_killed_box_loses_its_lease_and_another_serves(farm: Farm) -> None:
    session = farm.connect()
    lease = session.lease("device=one/0", wait_s=10.0)
    remote = lease.open_session()
    farm.kill_box("one")
    until(lambda: lease.lost is not None)
    assert "box one is gone" in str(lease.lost)
    with pytest.raises(SessionClosed):
        remote.upload(b"x", "x")
    remote.close()
    assert states(session) == {"one/0": "gone", "two/0": "ready"}
    with session.request("cpu") as other:
        assert other.box == "two"
    farm.start_box("one")
    until(lambda: states(session) == {"one/0": "ready", "two/0": "ready"})
    with session.request("device=one/0") as again:
        use(again)


def test_request_and_run_goes_on_elsewhere(farm: Farm) -> None:
    session = farm.connect()
    ran_on: list[str] = []

    def work(remote: RPCSession) -> str:
        ran_on.append(remote.box)
        if len(ran_on) == 1:
            farm.kill_box(remote.box)
        use(remote)
        return remote.box

    assert session.request_and_run("cpu", work, max_retry=3) == ran_on[-1]
    assert len(set(ran_on)) == 2

    def wrong(remote: RPCSession) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        session.request_and_run("cpu", wrong)

    def lost(remote: RPCSession) -> None:
        raise SessionClosed("gone again")

    with pytest.raises(TrackerError, match="could not run on 'cpu' in 2 tries: gone again"):
        session.request_and_run("cpu", lost)


def test_a_killed_tracker_comes_back_with_all_leases(farm: Farm) -> None:
    session = farm.connect()
    remote = session.request("device=one/0")
    before = [d.lease for d in session.devices() if d.id == "one/0"]
    farm.restart_tracker()
    use(remote)
    until(lambda: _answers(session))
    until(lambda: states(session) == {"one/0": "leased", "two/0": "ready"})
    assert [d.lease for d in session.devices() if d.id == "one/0"] == before
    time.sleep(TIMING.grace_s + 1.0)
    use(remote)
    with pytest.raises(NoDeviceError, match="number 1 of 1"):
        session.lease("device=one/0", wait_s=0.5)
    remote.close()
    with session.request("device=one/0", wait_s=20.0) as again:
        use(again)
    check_log(session)


def test_a_request_that_waits_survives_the_tracker(farm: Farm) -> None:
    session = farm.connect()
    got: list[str] = []

    def wait() -> None:
        with session.lease("late", wait_s=PATIENCE_S) as lease:
            got.append(lease.device)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: any(queue.pending for queue in session.queue()))
    farm.restart_tracker()
    farm.start_box("three", key="late")
    thread.join(PATIENCE_S)
    assert got == ["three/0"]


def test_a_stopped_box_is_gone_and_comes_back_without_its_lease(farm: Farm) -> None:
    session = farm.connect()
    lease = session.lease("device=one/0", wait_s=10.0)
    remote = lease.open_session()
    os.kill(farm.boxes["one"].pid, signal.SIGSTOP)
    try:
        until(lambda: lease.lost is not None)
        assert states(session)["one/0"] == "gone"
    finally:
        os.kill(farm.boxes["one"].pid, signal.SIGCONT)
    until(lambda: states(session)["one/0"] == "ready")
    with pytest.raises(RPCError):
        remote.upload(b"x", "x")
    remote.close()
    with session.request("device=one/0", wait_s=20.0) as again:
        use(again)
    check_log(session)


def test_a_stopped_tracker_takes_nothing_away(farm: Farm) -> None:
    session = farm.connect()
    remote = session.request("cpu")
    os.kill(farm.tracker.pid, signal.SIGSTOP)
    try:
        time.sleep(TIMING.box_timeout_s + TIMING.grace_s + 1.0)
    finally:
        os.kill(farm.tracker.pid, signal.SIGCONT)
    use(remote)
    time.sleep(1.0)
    assert sorted(states(session).values()) == ["leased", "ready"]
    use(remote)
    remote.close()


def _answers(session: TrackerSession) -> bool:
    try:
        session.queue()
    except ConnectError:
        return False
    return True


# Starting, and peers that do not play by the rules


def test_no_tracker_there_is_a_clear_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(ConnectError) as caught:
        connect_tracker("127.0.0.1", port)
    assert f"127.0.0.1:{port}" in caught.value.message
    assert caught.value.hint is not None
    assert f"tunefarm tracker --port {port}" in caught.value.hint
    with pytest.raises(ConnectError, match="no-such-host"):
        connect_tracker("no-such-host.invalid", 9190)


def test_what_is_no_tracker_is_named_as_such(shared: Farm) -> None:
    with pytest.raises(ConnectError, match="no tracker"):
        connect_tracker("127.0.0.1", shared.boxes["one"].port)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConnectError, match="does not speak"):
            connect_tracker("127.0.0.1", port, timeout_s=1.0)


def test_a_tracker_that_is_gone_fails_questions_and_waits(farm: Farm) -> None:
    session = farm.connect()
    farm.tracker.terminate()
    with pytest.raises(ConnectError, match=f"{farm.tracker.port}"):
        session.devices()
    session.close()
    with pytest.raises(ConnectError, match="closed"):
        session.devices()


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
            with connect_tracker("127.0.0.1", tracker.port) as session:
                with session.request("cpu", wait_s=PATIENCE_S) as remote:
                    use(remote)
                (device,) = session.devices()
                assert device.address == f"127.0.0.1:{box.port}"
        finally:
            box.terminate()


def test_noise_harms_nobody(shared: Farm) -> None:
    session = shared.connect()
    remote = session.request("cpu")
    rng = random.Random(7)
    honest = to_tracker.encode(RequestDevice("p", "r", "u", "cpu", wait_s=0.0), Kind.NOTE)
    context = zmq.Context()
    try:
        for _ in range(20):
            sock = context.socket(zmq.DEALER)
            sock.setsockopt(zmq.LINGER, 200)
            sock.connect(f"tcp://127.0.0.1:{shared.tracker.port}")
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
        with socket.create_connection(("127.0.0.1", shared.tracker.port)) as plain:
            plain.sendall(rng.randbytes(5000))
    finally:
        context.term()
    assert shared.tracker.is_alive
    use(remote)
    remote.close()
    until(lambda: set(states(session).values()) == {"ready"})
