"""Single faults under load, with real processes: their cost, and what must hold after them (kit.farm.fault_farm)."""

import contextlib
import os
import random
import signal
import time

import pytest

from rpc_server.client.connect import box_status, open_session
from rpc_server.errors import LeaseRefused, RPCError
from tests.kit.farm.fault_farm import TIMING, fault_farm, marked, until
from tests.kit.process_tree import children, wardens
from tracker.errors import LeaseLostError

RNG = random.Random(11)
MOMENTS = 2


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    with fault_farm(folder, "one", "two") as running:
        for name in ("ann", "bob", "cy"):
            running.start_worker(name)
        yield running


@pytest.fixture(autouse=True)
def busy(farm):
    farm.mend()
    farm.everyone_goes_on()
    yield
    farm.everyone_goes_on()
    farm.watch.look()
    assert not farm.watch.problems


def moments():
    for _ in range(MOMENTS):
        time.sleep(RNG.random())
        yield


def test_killed_executors(farm):
    for _ in moments():
        farm.kill_executor(RNG.choice(["one", "two"]))


def test_killed_servers(farm):
    for _ in moments():
        name = RNG.choice(["one", "two"])
        pids = children(farm.boxes[name].server.pid)
        farm.kill_box(name)
        until(lambda pids=pids: not set(pids) & set(marked(farm.mark)), "its executors are gone", 60.0)
        farm.start_box(name)


def test_killed_clients(farm):
    for _ in moments():
        farm.kill_worker("bob")
        farm.start_worker("bob")


def test_a_killed_tracker(farm):
    for _ in moments():
        farm.restart_tracker()


def test_a_stopped_client_comes_back_to_a_lost_lease(farm):
    os.kill(farm.workers["ann"].pid, signal.SIGSTOP)
    time.sleep(TIMING.grace_s + 2.0)
    os.kill(farm.workers["ann"].pid, signal.SIGCONT)


def test_a_stopped_executor_holds_up_only_its_own_session(farm):
    (pid, *_) = wardens(farm.boxes["one"].server.pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert box_status("127.0.0.1", farm.boxes["one"].server.port).box == "one"
        # a user who holds nothing: the one whose session is held up would stand behind the others' fair share
        with farm.connect("dan") as session, session.request("device=two/0", wait_s=60) as remote:
            remote.cpu().sync()
    finally:
        with contextlib.suppress(ProcessLookupError):  # ended with its session
            os.kill(pid, signal.SIGCONT)


def test_a_cut_network_takes_a_box_away_and_fences_its_lease(farm):
    """Behind the cut the old holder harms nobody: the box is lent again only once it has ended that session."""
    with farm.connect() as session:
        lease = session.lease("device=one/0", wait_s=60)
        remote = lease.open_session()
        farm.boxes["one"].proxy.cut()
        try:
            until(lambda: lease.lost is not None, "the tracker gives the box up")
            assert {d.state for d in session.devices() if d.box == "one"} == {"gone"}
            with pytest.raises(LeaseLostError):
                lease.open_session()
        finally:
            farm.boxes["one"].proxy.heal()
        with session.request("device=one/0", wait_s=60) as again:
            again.cpu().sync()
            with pytest.raises(RPCError):
                remote.cpu().sync()
            with pytest.raises(LeaseRefused):
                open_session("127.0.0.1", farm.boxes["one"].server.port, token=lease.token)
        remote.close()


def test_a_short_cut_costs_nothing(farm):
    with farm.connect() as session, session.request("device=two/0", wait_s=60) as remote:
        farm.boxes["two"].proxy.cut()
        time.sleep(0.5)
        farm.boxes["two"].proxy.heal()
        time.sleep(TIMING.late_s)
        remote.cpu().sync()
