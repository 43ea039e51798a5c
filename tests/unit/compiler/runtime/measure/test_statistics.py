"""Robust statistics of timings, against brute force, and the conditions a measurement was made under."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.runtime.measure import conditions
from compiler.runtime.measure.conditions import Reading
from compiler.runtime.measure.statistics import median_interval, outliers, summarise
from compiler.runtime.measure.timing import BenchmarkResult

SAMPLES = st.lists(st.floats(1e-9, 10.0), min_size=1, max_size=60)


@given(SAMPLES)
def test_an_interval_holds_its_median(samples: list[float]) -> None:
    interval = median_interval(samples)
    assert 0 <= interval.low <= interval.median <= interval.high
    assert interval.median == median(samples)


@pytest.mark.parametrize("count", [6, 7, 9, 12])
def test_order_statistics_cover_the_median_as_said(count: int) -> None:
    """Each sample is above or below the true median with equal chance: count every outcome."""
    position = list(range(count))
    interval = median_interval(position)
    low, high = int(interval.low), int(interval.high)
    covered = sum(
        1 for below in product((0, 1), repeat=count) if low < sum(below) <= high
    )  # the median lies above `sum(below)` of the samples
    assert covered / 2**count >= 0.95


def test_a_thousand_samples_and_more() -> None:
    samples = np.random.default_rng(0).normal(1.0, 0.1, 5000).tolist()
    interval = median_interval(samples)
    assert 0.99 < interval.low < 1.0 < interval.high < 1.01


def test_outliers_are_found_whatever_the_others_do() -> None:
    assert outliers([1.0, 1.01, 0.99, 1.0, 1.02, 5.0]) == (5,)
    assert outliers([1.0, 1.0, 1.0, 1.0, 9.0]) == (4,)  # no median deviation at all
    assert outliers([1.0, 1.0, 1.0]) == ()
    assert outliers([1.0, 9.0]) == ()


def test_a_result_tells_its_scatter() -> None:
    result = BenchmarkResult((1.0, 1.1, 0.9, 1.0, 1.0, 1.05, 4.0), ("preempted 2 times",))
    assert result.mad == pytest.approx(summarise(result.results)[1])
    assert result.outliers == (6,)
    assert result.confidence_interval.low <= result.median <= result.confidence_interval.high
    text = str(result)
    assert "1 of 7 repeats are outliers" in text
    assert text.endswith("warning: preempted 2 times")


# -- conditions ------------------------------------------------------------------------------------------------

QUIET = Reading(at=10.0, busy_s=100.0, stolen_s=0.0, own_s=5.0, core=0, frequency_khz=3e6, throttled=0)
LATER = replace(QUIET, at=11.0, busy_s=101.0, own_s=6.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ()),
        ({"busy_s": 101.5}, ("other processes used 50% of a core",)),
        ({"stolen_s": 0.2}, ("the hypervisor took 20% of a core",)),
        ({"preempted": 1}, ("preempted 1 time",)),
        ({"core": 1}, ("moved from core 0 to core 1",)),
        ({"core": 1, "pinned": True}, ()),
        ({"frequency_khz": 2.4e6}, ("the clock went from 3.00 to 2.40 GHz",)),
        ({"throttled": 3}, ("cores were slowed down for heat 3 times",)),
        ({"busy_s": None, "stolen_s": None, "core": None, "frequency_khz": None, "throttled": None}, ()),
        ({"at": 10.01, "busy_s": 109.0}, ()),  # too short for the counters of time
        ({"at": 10.01, "ready": 2}, ()),  # only at one end: a passing moment
    ],
)
def test_what_disturbs_is_said(change: dict[str, float], said: tuple[str, ...]) -> None:
    assert conditions.warnings(QUIET, replace(LATER, **change)) == said


def test_short_measurements_go_by_the_run_queue() -> None:
    before, after = replace(QUIET, ready=3), replace(LATER, at=10.01, ready=2)
    assert conditions.warnings(before, after) == ("2 other tasks were ready to run",)


def test_two_threads_may_move() -> None:
    assert conditions.warnings(QUIET, replace(LATER, core=1), threads=2) == ()


def test_this_machine_can_be_read() -> None:
    first = conditions.take()
    second = conditions.take()
    assert second.at >= first.at
    assert second.own_s >= first.own_s
    assert second.busy_s is not None
    assert first.busy_s is not None
    assert second.busy_s >= first.busy_s
    assert second.core is not None


def test_the_processors_temperature(tmp_path):
    def sensor(kind, name, file, degrees):
        folder = tmp_path / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("name" if "hwmon" in kind else "type")).write_text(name + "\n")
        (folder / file).write_text(f"{degrees * 1000}\n")

    assert conditions._sensors.__wrapped__(str(tmp_path)) == ()
    sensor("thermal/thermal_zone0", "acpitz", "temp", 20)
    sensor("thermal/thermal_zone1", "x86_pkg_temp", "temp", 55)
    (zone,) = conditions._sensors.__wrapped__(str(tmp_path))
    assert zone.endswith("thermal_zone1/temp")
    sensor("hwmon/hwmon0", "nvme", "temp1_input", 90)
    sensor("hwmon/hwmon1", "k10temp", "temp1_input", 61)
    sensor("hwmon/hwmon1", "k10temp", "temp3_input", 58)
    found = conditions._sensors.__wrapped__(str(tmp_path))
    assert [conditions._number(path) for path in found] == [61_000, 58_000]
    told = conditions.temperature()
    assert told is None or 0 < told < 150
