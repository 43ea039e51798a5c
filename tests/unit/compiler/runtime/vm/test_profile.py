"""The profile of a model: each call's time is the median of several runs."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.runtime.core.device import cpu
from compiler.runtime.measure.report import Duration, Ratio
from compiler.runtime.vm.profile import ProfileTimer, report


def profiled(*runs: dict[str, int]) -> list[dict[str, Any]]:
    """The calls of a report of runs, each of which says how many nanoseconds its kernels took."""
    left = list(runs)

    def watched(timer: ProfileTimer) -> None:
        for name, spent in left.pop(0).items():
            timer._note(name, spent, (), None)

    found = report(watched, lambda: None, [cpu()], None)
    return [dict(call) for call in found.calls]


def microseconds(calls: list[dict[str, Any]]) -> dict[str, float]:
    return {call["Name"]: call["Duration (us)"].microseconds for call in calls}


def test_a_call_that_was_disturbed_once_has_its_usual_time() -> None:
    calls = profiled({"a": 1000, "b": 900_000}, {"a": 50_000, "b": 3000}, {"a": 1200, "b": 3100})
    assert microseconds(calls) == {"a": 1.2, "b": 3.1}
    assert sum(call["Percent"].percent for call in calls) == pytest.approx(100)
    assert isinstance(calls[0]["Duration (us)"], Duration)
    assert isinstance(calls[0]["GB/s"], Ratio)


def test_runs_of_other_calls_are_compared_whole() -> None:
    calls = profiled({"a": 1000}, {"a": 1000, "b": 5000}, {"a": 1000, "b": 7000})
    assert microseconds(calls) == {"a": 1.0, "b": 5.0}
