"""A run that waits for its turn at a tracker: it keeps its place, it waits on, and it leaves no request behind."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from rpc_server.box.server import Server
from rpc_server.wire.trial_messages import MeasureResult
from tests.kit.farm.tracker import CALM, PATIENCE_S, until
from tracker.client import TrackerSession, connect_tracker
from tracker.errors import NoDeviceError
from tracker.server import Tracker
from tuner.devices.fleet import DeviceSession, Lost, Opened, Queueing, Slot, SlotNews
from tuner.devices.supplies import TrackerFleet, local_target
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_search
from tuner.engine.replay import ReplayBuilder, ReplayFleet
from tuner.errors import NoDevicesError
from tuner.task import TuningTask


@pytest.fixture
def tracker() -> Iterator[Tracker]:
    with (
        Tracker("127.0.0.1", port=0, silent=True, timing=CALM) as running,
        Server("127.0.0.1", port=0, silent=True, tracker_addr=("127.0.0.1", running.port), key="k"),
    ):
        yield running


def connected(tracker: Tracker, user: str) -> TrackerSession:
    return connect_tracker("127.0.0.1", tracker.port, user=user, timeout_s=PATIENCE_S)


def test_a_slot_that_asks_again_and_again_keeps_its_place(tracker: Tracker) -> None:
    """One that stood in line anew each time would soon be behind everybody else."""
    fleet = TrackerFleet("127.0.0.1", tracker.port, "k")
    with connected(tracker, "holder") as holder, connected(tracker, "late") as other:
        lease = holder.lease("k", wait_s=PATIENCE_S)
        with pytest.raises(NoDeviceError):
            fleet.open(0, wait_s=0.0)
        until(lambda: fleet.waiting().startswith("number 1 of 1"))  # it stands in line before the late one asks
        late = other.ask("k")
        until(lambda: late.place is not None)
        with pytest.raises(NoDeviceError, match="number 1 of"):
            fleet.open(0, wait_s=0.0)
        until(lambda: fleet.waiting().startswith("number 1 of 2 in the queue for 1 device"))
        assert late.wait(0.0) is None
        assert late.place is not None
        assert late.place.position == 2
        lease.release()
        session = fleet.open(0, wait_s=PATIENCE_S)
        assert fleet.waiting() == ""
        assert not fleet.has_turn_coming()
        assert late.wait(0.0) is None
        session.close()
        last = late.wait(PATIENCE_S)
        assert last is not None
        last.release()
    fleet.close()


def test_a_slot_that_stops_leaves_the_queue(tracker: Tracker) -> None:
    fleet = TrackerFleet("127.0.0.1", tracker.port, "k")
    with connected(tracker, "holder") as holder:
        lease = holder.lease("k", wait_s=PATIENCE_S)
        news: queue.SimpleQueue[SlotNews] = queue.SimpleQueue()
        slot = Slot(0, fleet, news.put)
        slot.start()
        assert isinstance(news.get(timeout=PATIENCE_S), Lost)
        slot.stop()
        slot.join(PATIENCE_S)
        until(lambda: sum(line.pending for line in holder.queue()) == 0)
        lease.release()
    fleet.close()


def test_a_slot_gets_what_came_while_it_did_not_ask(tracker: Tracker) -> None:
    fleet = TrackerFleet("127.0.0.1", tracker.port, "k")
    with connected(tracker, "holder") as holder:
        lease = holder.lease("k", wait_s=PATIENCE_S)
        with pytest.raises(NoDeviceError):
            fleet.open(0, wait_s=0.0)
        lease.release()
        until(lambda: [device.user for device in holder.devices()] not in ([None], ["holder"]))
        news: queue.SimpleQueue[SlotNews] = queue.SimpleQueue()
        slot = Slot(0, fleet, news.put)
        slot.start()
        assert isinstance(news.get(timeout=PATIENCE_S), Opened)
        slot.stop()
        slot.join(PATIENCE_S)
        until(lambda: [device.user for device in holder.devices()] == [None])
    fleet.close()


class Shared:
    """Replayed devices that others have until they were asked for `after` times; `matching` ones."""

    def __init__(self, matching: int, after: int) -> None:
        self._inner = ReplayFleet(lambda name: MeasureResult(costs=(1e-3, 1e-3, 1e-3)))
        self._matching = matching
        self._left = after

    def label(self) -> str:
        return "shared devices"

    def target(self) -> str:
        return self._inner.target()

    def count(self) -> int:
        return 1

    def open(self, slot: int, wait_s: float) -> DeviceSession:
        self._left -= 1
        if self._left >= 0:
            raise NoDeviceError("others have it")
        return self._inner.open(slot, wait_s)

    def waiting(self) -> str:
        return "number 1 of 1"

    def has_turn_coming(self) -> bool:
        return self._matching > 0

    def leave(self, slot: int) -> None:
        self._left = -1

    def close(self) -> None:
        self._inner.close()


def run(fleet: Shared) -> int:
    assert isinstance(fleet, Queueing)
    search = sketch_search(TuningTask.from_spec("matmul:16,16,16", local_target()), "random", 0)
    options = RunOptions(trials=2, finalists=0, device_wait_s=0.0)
    return tune([search], fleet=fleet, builder=ReplayBuilder(), options=options).snapshot.tasks[0].done


def test_a_run_whose_turn_is_coming_waits_on() -> None:
    assert run(Shared(matching=1, after=2)) == 2


def test_a_run_for_which_there_is_no_device_gives_up() -> None:
    with pytest.raises(NoDevicesError, match="shared devices"):
        run(Shared(matching=0, after=1_000_000))
