"""A tracker and boxes as processes of their own, and whatever dies, stops or is restarted."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from rpc_server.client.session import RPCSession
from rpc_server.errors import ConnectError, RPCError, SessionClosed
from tests.kit.farm.tracker import PATIENCE_S, WATCHFUL, Farm, check_log, client_process, running, states, until, use
from tracker.client import TrackerSession
from tracker.errors import NoDeviceError, TrackerError


@pytest.fixture(scope="module")
def shared() -> Iterator[Farm]:
    with running("one", "two", timing=WATCHFUL) as farm:
        yield farm


@pytest.fixture
def farm(shared: Farm) -> Farm:
    """Return the farm with both boxes ready, whatever died in it before."""
    for name in {"one", "two"} - set(shared.boxes):
        shared.start_box(name)
    session = shared.connect("watcher")
    until(lambda: {d.box for d in session.devices() if d.state == "ready"} >= {"one", "two"})
    return shared


@pytest.fixture
def bare() -> Iterator[Farm]:
    """A tracker without boxes."""
    with running(timing=WATCHFUL) as farm:
        yield farm


def test_a_killed_clients_device_returns(farm: Farm) -> None:
    session = farm.connect()
    before = session.events(limit=100_000)[-1].seq
    process = client_process(farm, "time.sleep(600)")
    until(lambda: "leased" in states(session).values())
    process.kill()
    process.wait()
    until(lambda: set(states(session).values()) == {"ready"})
    assert any("its client was silent" in event.text for event in session.events(before))
    assert process.stdout is not None
    process.stdout.close()


def test_a_client_that_just_ends_gives_its_device_back_at_once(farm: Farm) -> None:
    session = farm.connect()
    before = session.events(limit=100_000)[-1].seq
    process = client_process(farm, "sys.exit(0)")
    assert process.wait(PATIENCE_S) == 0
    until(lambda: set(states(session).values()) == {"ready"})
    assert not any("was silent" in event.text for event in session.events(before))
    assert process.stdout is not None
    process.stdout.close()


def test_a_killed_box_loses_its_lease_and_another_serves(farm: Farm) -> None:
    session = farm.connect()
    lease = session.lease("device=one/0", wait_s=PATIENCE_S)
    remote = lease.open_session()
    farm.kill_box("one")
    until(lambda: lease.lost is not None)
    assert "box one is gone" in str(lease.lost)
    with pytest.raises(SessionClosed):
        remote.upload(b"x", "x")
    remote.close()
    until(lambda: states(session) == {"one/0": "gone", "two/0": "ready"})
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
    time.sleep(WATCHFUL.grace_s + 1.0)
    use(remote)
    with pytest.raises(NoDeviceError, match="number 1 of 1"):
        session.lease("device=one/0", wait_s=0.5)
    remote.close()
    with session.request("device=one/0", wait_s=PATIENCE_S) as again:
        use(again)
    check_log(session)


def test_a_request_that_waits_survives_the_tracker(bare: Farm) -> None:
    session = bare.connect()
    got: list[str] = []

    def wait() -> None:
        with session.lease("late", wait_s=PATIENCE_S) as lease:
            got.append(lease.device)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: any(queue.pending for queue in session.queue()))
    bare.restart_tracker()
    bare.start_box("three", key="late")
    thread.join(PATIENCE_S)
    assert got == ["three/0"]


def test_a_stopped_box_is_gone_and_comes_back_without_its_lease(farm: Farm) -> None:
    session = farm.connect()
    lease = session.lease("device=one/0", wait_s=PATIENCE_S)
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
    with session.request("device=one/0", wait_s=PATIENCE_S) as again:
        use(again)
    check_log(session)


def test_a_stopped_tracker_takes_nothing_away(farm: Farm) -> None:
    session = farm.connect()
    remote = session.request("cpu")
    os.kill(farm.tracker.pid, signal.SIGSTOP)
    try:
        time.sleep(WATCHFUL.box_timeout_s + WATCHFUL.grace_s + 1.0)
    finally:
        os.kill(farm.tracker.pid, signal.SIGCONT)
    use(remote)
    time.sleep(1.0)
    until(lambda: sorted(states(session).values()) == ["leased", "ready"])  # what was taken would not be leased again
    use(remote)
    remote.close()


def _answers(session: TrackerSession) -> bool:
    try:
        session.queue()
    except ConnectError:
        return False
    return True


def test_a_tracker_that_is_gone_fails_questions_and_waits(bare: Farm) -> None:
    session = bare.connect()
    bare.tracker.terminate()
    with pytest.raises(ConnectError, match=f"{bare.tracker.port}"):
        session.devices()
    session.close()
    with pytest.raises(ConnectError, match="closed"):
        session.devices()
