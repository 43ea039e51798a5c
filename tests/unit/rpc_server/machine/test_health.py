"""The health check: what its scores are judged by, and the calibration kernels in a real process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rpc_server.machine import children
from rpc_server.machine.calibration import Calibration, calibrate
from rpc_server.machine.gpus import ProbeSettings, probe
from rpc_server.machine.health import Health, HealthCheck, judge
from rpc_server.wire.tracker_records import Scores

BASE = Scores(16.0, 20.0)


def test_the_first_good_scores_become_the_baseline() -> None:
    found = judge(Calibration(16.0, 20.0), None)
    assert found == Health(True, "16.0 GFLOP/s, 20.0 GB/s", scores=BASE, baseline=BASE)


@pytest.mark.parametrize(("compute", "memory"), [(8.0, 10.0), (16.0, 20.0), (40.0, 60.0)])
def test_scores_near_the_baseline_pass_and_leave_it_as_it_is(compute: float, memory: float) -> None:
    found = judge(Calibration(compute, memory), BASE)
    assert found.passed
    assert not found.slow
    assert (found.scores, found.baseline) == (Scores(compute, memory), BASE)


def test_much_less_than_the_baseline_fails_and_says_what_is_slow() -> None:
    found = judge(Calibration(4.0, 20.0), BASE)
    assert (found.passed, found.slow) == (False, True)
    assert found.text == "4.0 GFLOP/s, 20.0 GB/s: arithmetic at 25 % of its first check"
    assert "arithmetic at 25 % and memory at 10 %" in judge(Calibration(4.0, 2.0), BASE).text


def test_a_wrong_result_fails_and_sets_no_baseline() -> None:
    found = judge(Calibration(wrong="core 1 computed something wrong"), None)
    assert found == Health(False, "core 1 computed something wrong")


def test_the_kernels_compute_what_they_should() -> None:
    cores = os.sched_getaffinity(0)
    found = calibrate()
    assert found.wrong == ""
    assert found.compute > 0.05
    assert found.memory > 0.05
    assert os.sched_getaffinity(0) == cores


def test_a_check_runs_in_a_process_of_its_own_and_keeps_its_baseline() -> None:
    check = HealthCheck()
    first = check(0)
    assert first.passed, first.text
    assert first.baseline == first.scores
    assert check(0, Scores(1e9, 1e9)).baseline == first.baseline
    late = check(1, Scores(1e9, 1e9))
    assert (late.passed, late.slow) == (False, True)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("import time; time.sleep(60)", "did not end within 0.5 s"),
        ("raise SystemExit('no llvmlite')", "ended with 1: no llvmlite"),
    ],
)
def test_a_process_that_dies_hangs_or_says_nothing_fails_the_check(monkeypatch, code: str, text: str) -> None:
    start = subprocess.Popen
    monkeypatch.setattr(
        children.subprocess, "Popen", lambda _, **options: start([sys.executable, "-c", code], **options)
    )
    found = HealthCheck(timeout_s=0.5 if "sleep" in code else 60.0)(0)
    assert not found.passed
    assert not found.slow
    assert f"the process of the calibration kernels {text}" in found.text
    assert probe(ProbeSettings(os.getpid(), "GPU-1"), 0.5).wrong.startswith("the probe of GPU GPU-1 ")
