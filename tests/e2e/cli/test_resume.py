"""Tuning that is stopped and goes on: what was measured stays, and nothing is measured twice."""

from __future__ import annotations

import os
import signal

import pytest

from tests.kit.cli.resume import KERNEL, begin, check_resumed, run_of
from tuner.records.model import RunState


def test_stopping_keeps_the_trials_and_a_resumed_run_measures_the_rest(farm):
    tuner = begin(farm)
    resume = ("tune", "--resume", "1", "--db", farm.db, "--quiet")
    refused = farm.run(*resume, code=1)
    assert "run 1 is being tuned by " in refused.stderr
    assert "stop it there first" in refused.stderr
    assert tuner.handle.poll() is None
    assert tuner.end(signal.SIGINT) == 130
    run = run_of(farm)
    assert run.state is RunState.INTERRUPTED
    assert run.trials >= 5
    assert f"Go on with: tunefarm tune --resume 1 --db {farm.db}" in tuner.text()
    assert "Traceback" not in tuner.text()
    budget = run.trials + 4
    farm.run(*resume, "--trials", str(budget))
    check_resumed(farm, run.trials, budget)


def test_sigterm_stops_like_ctrl_c_and_the_resume_command_names_the_servers(farm):
    _, port = farm.serve("server", "server")
    tuner = begin(farm, "--device", f"127.0.0.1:{port}")
    assert tuner.end(signal.SIGTERM) == 130
    assert run_of(farm).state is RunState.INTERRUPTED
    assert f"tunefarm tune --resume 1 --db {farm.db} --device 127.0.0.1:{port}" in tuner.text()
    assert "Traceback" not in tuner.text()


def test_a_finished_run_has_nothing_left(farm):
    farm.run("tune", KERNEL, "--trials", "2", "--db", farm.db, "--quiet")
    refused = farm.run("tune", "--resume", "1", "--db", farm.db, code=1)
    assert "run 1 is finished: every workload had its 2 trials" in refused.stderr
    assert "hint: raise the budget: tunefarm tune --resume 1 --trials 4" in refused.stderr
    farm.run("tune", "--resume", "1", "--trials", "4", "--db", farm.db, "--quiet")
    check_resumed(farm, 2, 4)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores to make two device classes")
def test_a_run_resumes_on_its_own_device_class_only(farm):
    core = str(min(os.sched_getaffinity(0)))
    _, narrow = farm.serve("narrow", "server", "--cores", core)
    farm.run("tune", KERNEL, "--trials", "2", "--db", farm.db, "--device", f"127.0.0.1:{narrow}", "--quiet")
    _, wide = farm.serve("wide", "server")
    resume = ("tune", "--resume", "1", "--trials", "4", "--db", farm.db)
    refused = farm.run(*resume, "--device", f"127.0.0.1:{wide}", code=1)
    assert f"127.0.0.1:{wide} is a " in refused.stderr
    assert "whose times would not compare" in refused.stderr
    farm.run(*resume, "--device", f"127.0.0.1:{narrow}", "--quiet")
    check_resumed(farm, 2, 4)
