"""The time limit of a build: its own time counts, not what it stands in line for a core."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tuner.build import worker as build_worker
from tuner.build.worker import _BuildTimeout, _in_line, _TimeLimit


@pytest.fixture(autouse=True)
def nothing_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog of builds that hang in machine code would take a busy machine for that: these limits are short."""
    monkeypatch.setattr(build_worker, "HARD", 10_000.0)


def test_a_build_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(_BuildTimeout), _TimeLimit(0.05):
        time.sleep(60)


def test_one_that_had_no_core_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{"thread-self": 7.0}, {"thread-self": 7.0, "1/task/1": 60.0}])  # as it begins, and at its limit
    monkeypatch.setattr(build_worker, "_in_line", lambda: next(answers))
    with _TimeLimit(0.05):
        time.sleep(0.2)
    assert next(answers, None) is None


def test_who_has_ended_has_waited_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_worker, "_LOOK_S", 0.02)
    answers = iter([{}, {"1/task/1": 60.0}])
    monkeypatch.setattr(build_worker, "_in_line", lambda: next(answers, {}))
    with _TimeLimit(0.05):
        time.sleep(0.2)


def test_the_kernel_says_who_stood_in_line() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as shell:
        try:
            while len(waits := _in_line()) < 3:  # this thread, the shell and what it started
                assert shell.poll() is None
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    assert all(wait >= 0.0 for wait in waits.values())
