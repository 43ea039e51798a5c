"""The work of a run's devices, and the share of its time that went into no work at all."""

from __future__ import annotations

import random

import pytest

from tuner.engine.progress import DeviceUse, drift
from tuner.engine.usage import Activity, Usage


def test_time_in_which_nothing_was_built_or_measured():
    activity = Activity()
    activity.ended(3.0, 2.0)  # 1 to 3
    activity.ended(4.0, 2.0)  # 2 to 4: overlaps the first
    activity.ended(4.0, 0.5)  # within it
    activity.ended(9.0, 1.0)  # 8 to 9
    activity.ended(7.0, 1.0)  # 6 to 7, reported late
    assert activity.overhead(10.0) == pytest.approx(1 - (3 + 1 + 1) / 10)
    activity.ended(10.0, 10.0)  # all of it
    assert activity.overhead(10.0) == 0.0


def test_a_run_that_has_just_begun_has_no_overhead():
    assert Activity().overhead(0.0) == 0.0
    assert Activity().overhead(2.0) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_union_of_any_pieces_of_work(seed):
    rng = random.Random(seed)
    activity, busy = Activity(), set()
    pieces = [(end := rng.randrange(1, 1000), rng.randrange(min(end, 20))) for _ in range(150)]
    for end, length in sorted(pieces, key=lambda piece: piece[0] + rng.randrange(10)):
        activity.ended(float(end), float(length))
        busy |= set(range(end - length, end))
    assert activity.overhead(1000.0) == pytest.approx(1 - len(busy) / 1000)


def test_many_pieces_far_apart_are_all_counted():
    activity = Activity()
    for number in range(5000):
        activity.ended(2.0 * number + 1, 1.0)
    assert activity.overhead(10_000.0) == pytest.approx(0.5)


def test_devices_by_the_time_they_were_held():
    usage = Usage()
    usage.opened(0, "a", 0.0)
    usage.measured(0, 3.0)
    usage.opened(0, "b", 4.0)  # the slot's next device
    usage.measured(0, 1.0)
    usage.measured(7, 1.0)  # of no slot that holds one
    assert usage.so_far(6.0) == (DeviceUse("a", 1, 3.0, 4.0), DeviceUse("b", 1, 1.0, 2.0))


@pytest.mark.parametrize(("last", "share"), [(1.05, None), (0.95, None), (1.25, 0.25), (0.75, -0.25)])
def test_a_baseline_that_took_another_time_at_the_end(last, share):
    assert drift(1.0, last) == (None if share is None else pytest.approx(share))
