"""Fleets over real servers and a real tracker: sessions, crashes, losses, and devices of another class."""

from __future__ import annotations

import os
import signal
import time

import pytest

from compiler.target.target import Target
from rpc_server.box.server import Server
from rpc_server.errors import ConnectError, RPCError, SessionClosed
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.farm.tracker import CALM
from tracker.capability import CapabilityError
from tracker.client import connect_tracker
from tracker.errors import NoDeviceError
from tracker.server import Tracker
from tuner.devices.supplies import DirectFleet, LocalFleet, TrackerFleet, WrongDeviceError, device_target, local_target
from tuner.errors import NoDevicesError, TuningError

QUICK = EvaluatorOptions(number=1, repeat=2)


def measure(session, kind: str):
    artifact = kernel(kind)
    return session.measure(MeasureRequest(artifact=artifact.digest, options=QUICK), (artifact,))


def server(**options):
    """A quiet server on a free port."""
    return Server("127.0.0.1", port=0, silent=True, **options)


@pytest.fixture
def tracker():
    with Tracker("127.0.0.1", port=0, silent=True, timing=CALM) as running:
        yield running


def wait_for_devices(tracker, count: int, *states: str):
    with connect_tracker("127.0.0.1", tracker.port, timeout_s=60) as session:
        deadline = time.monotonic() + 60
        while len(found := [d for d in session.devices() if d.state in (states or ("ready",))]) != count:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
    return found


def test_a_target_names_the_devices_cores():
    assert device_target("llvm -mcpu=znver3", 4) == "llvm -mcpu=znver3 -num-cores=4"
    assert device_target("llvm -num-cores=64 -mcpu=znver3", 2) == "llvm -mcpu=znver3 -num-cores=2"
    assert Target(local_target()).num_cores == len(os.sched_getaffinity(0))


def test_a_local_fleet_measures_and_outlives_a_crash():
    fleet = LocalFleet()
    try:
        assert fleet.count() == 1
        assert fleet.target() == local_target()
        session = fleet.open(0, wait_s=60)
        device = session.device()
        assert device.name.endswith("/local")
        assert device.key == "cpu"
        assert measure(session, "add_one").ok
        assert measure(session, "segfault").failure is FailureKind.CRASH
        assert measure(session, "add_one").ok  # on the same session
        session.close()
    finally:
        fleet.close()
    with pytest.raises(ConnectError):
        fleet.target()


def test_a_direct_fleet_has_a_slot_for_each_server():
    with server(name="one") as one, server(name="two", key="bench") as two:
        addresses = [("127.0.0.1", one.port), ("127.0.0.1", two.port), ("127.0.0.1", one.port)]
        fleet = DirectFleet(addresses)
        assert fleet.count() == 2
        assert fleet.label() == f"127.0.0.1:{one.port} or 127.0.0.1:{two.port}"
        sessions = [fleet.open(slot, wait_s=60) for slot in range(2)]
        assert [(s.device().name, s.device().key) for s in sessions] == [("one", "cpu"), ("two", "bench")]
        os.kill(two.pid, signal.SIGKILL)
        with pytest.raises(SessionClosed):
            measure(sessions[1], "add_one")
        with pytest.raises(ConnectError):
            fleet.open(1, wait_s=1.0)
        assert measure(sessions[0], "add_one").ok
        for session in sessions:
            session.close()


def test_the_first_server_that_answers_says_what_to_build_for():
    with server() as one:
        assert DirectFleet([("127.0.0.1", 1), ("127.0.0.1", one.port)]).target() == local_target()
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
        DirectFleet([("127.0.0.1", 1)]).target()
    with pytest.raises(TuningError):
        DirectFleet([])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores to make two device classes")
def test_a_device_of_another_class_is_refused_by_name(tracker):
    cores = os.sched_getaffinity(0)
    address = ("127.0.0.1", tracker.port)
    with server(name="wide", tracker_addr=address) as wide:
        os.sched_setaffinity(0, {min(cores)})
        try:
            narrow = server(name="narrow", tracker_addr=address)
            alone = server(name="alone")
        finally:
            os.sched_setaffinity(0, cores)
        with narrow, alone, server(name="free") as free:
            direct = DirectFleet([("127.0.0.1", free.port), ("127.0.0.1", alone.port)])
            direct.open(0, wait_s=60).close()
            with pytest.raises(WrongDeviceError, match=r"alone is a .*/1t/.*whose times would not compare"):
                direct.open(1, wait_s=60)
            wait_for_devices(tracker, 2)
            fleet = TrackerFleet(*address, "cpu")
            try:
                assert Target(fleet.target()).num_cores == 1  # "narrow" comes first by id
                assert fleet.count() == 1
                with fleet_session(fleet) as session:
                    assert session.device().name == "narrow/0"
                    with pytest.raises(NoDeviceError):
                        fleet.open(1, wait_s=0.2)  # "wide" is free, and not offered
            finally:
                fleet.close()
        assert wide.is_alive


class fleet_session:
    def __init__(self, fleet):
        self.session = fleet.open(0, wait_s=60)

    def __enter__(self):
        return self.session

    def __exit__(self, *_):
        self.session.close()


def test_a_tracker_fleet_keeps_its_lease_through_a_crash(tracker):
    with server(tracker_addr=("127.0.0.1", tracker.port), key="bench"):
        wait_for_devices(tracker, 1)
        fleet = TrackerFleet("127.0.0.1", tracker.port, "bench")
        try:
            assert fleet.count() == 1
            assert fleet.target() == local_target()
            with fleet_session(fleet) as session:
                (device,) = wait_for_devices(tracker, 1, "leased")
                assert device.user is not None
                assert device.user.endswith(f":{os.getpid()}")
                assert session.device().name == device.id
                assert session.device().key == "bench"
                assert measure(session, "segfault").failure is FailureKind.CRASH
                assert measure(session, "add_one").ok
                (still,) = wait_for_devices(tracker, 1, "leased")
                assert still.lease == device.lease
            wait_for_devices(tracker, 1, "ready")
        finally:
            fleet.close()


def test_closing_a_tracker_fleet_gives_everything_back(tracker):
    with server(tracker_addr=("127.0.0.1", tracker.port)):
        wait_for_devices(tracker, 1)
        fleet = TrackerFleet("127.0.0.1", tracker.port)
        session = fleet.open(0, wait_s=60)
        wait_for_devices(tracker, 1, "leased")
        fleet.close()
        wait_for_devices(tracker, 1, "ready")
        with pytest.raises(RPCError):
            measure(session, "add_one")
        session.close()


def test_a_tracker_without_such_devices(tracker):
    fleet = TrackerFleet("127.0.0.1", tracker.port, "sm_90")
    try:
        assert fleet.count() == 1  # there may come one
        with pytest.raises(NoDevicesError, match="has no device that matches 'sm_90'") as caught:
            fleet.target(wait_s=0.3)
        assert f"tunefarm server --tracker 127.0.0.1:{tracker.port}" in str(caught.value.hint)
    finally:
        fleet.close()


def test_a_tracker_that_is_not_there_and_an_expression_that_is_none():
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
        TrackerFleet("127.0.0.1", 1, "cpu")
    with pytest.raises(CapabilityError):
        TrackerFleet("127.0.0.1", 1, "memory>=lots")


def test_a_fleet_that_waits_says_where_it_stands(tracker):
    with server(tracker_addr=("127.0.0.1", tracker.port), key="k"):
        wait_for_devices(tracker, 1)
        fleet = TrackerFleet("127.0.0.1", tracker.port, "k")
        try:
            assert fleet.waiting() == ""
            with connect_tracker("127.0.0.1", tracker.port, timeout_s=60) as other:
                lease = other.lease("k", wait_s=60)
                with pytest.raises(NoDeviceError):
                    fleet.open(0, wait_s=0.0)
                deadline = time.monotonic() + 60
                while not fleet.waiting().startswith("number 1 of 1 in the queue for 1 device"):
                    assert time.monotonic() < deadline, fleet.waiting()
                    time.sleep(0.05)
                lease.release()
            fleet.open(0, wait_s=60).close()
            assert fleet.waiting() == ""
        finally:
            fleet.close()
