"""The time limit of a build: its own time counts, not what it stands in line for a core."""

from __future__ import annotations

import time

import pytest

from tuner import build_worker
from tuner.build_worker import _BuildTimeout, _in_line_s, _TimeLimit


def test_a_build_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(_BuildTimeout), _TimeLimit(0.05):
        time.sleep(60)


def test_one_that_had_no_core_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([0.0, 60.0])  # when it begins, and when its limit has come
    monkeypatch.setattr(build_worker, "_in_line_s", lambda: next(answers))
    with _TimeLimit(0.05):
        time.sleep(0.2)
    assert next(answers, None) is None


def test_the_kernel_says_who_stood_in_line() -> None:
    assert 0.0 <= _in_line_s() <= _in_line_s()
