"""Tuning that is stopped, or dies, and goes on: what was measured stays, and nothing is measured twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter

import psutil
import pytest
from cli_farm import cli_farm, until

from tuner.records.migrate import upgrade
from tuner.records.model import RunState, TrialPurpose
from tuner.records.store import RecordStore

KERNEL = "matmul:32,32,32:float32"


@pytest.fixture
def farm(tmp_path):
    with cli_farm(tmp_path) as running:
        yield running


def run_of(farm):
    with RecordStore.open(farm.db) as store:
        runs = store.runs(limit=1)
        return runs[0] if runs else None


def begin(farm, *flags: str):
    """A long run, once it has some trials."""
    upgrade(farm.db)
    tuner = farm.start("tune", "tune", KERNEL, "--trials", "400", "--db", farm.db, *flags)

    def under_way() -> bool:
        run = run_of(farm)
        return (run is not None and run.trials >= 5) or tuner.handle.poll() is not None

    until(under_way, tuner.text)
    return tuner


def check_resumed(farm, before: int, budget: int) -> None:
    """After a resumed run: it reached its budget, and no candidate has two search trials."""
    with RecordStore.open(farm.db) as store:
        (run,) = store.runs()
        found = list(store.all_trials(run.id))
    assert run.state is RunState.FINISHED
    assert run.trials == budget
    searched = Counter(t.digest for t in found if t.purpose is TrialPurpose.SEARCH)
    assert sum(searched.values()) == budget > before
    assert set(searched.values()) == {1}
    # at the run's start and its end; again at the end where that had come when it was killed
    assert sum(t.purpose is TrialPurpose.BASELINE for t in found) in (2, 3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_keeps_the_trials_and_says_how_to_go_on(farm, number):
    tuner = begin(farm)
    assert tuner.end(number) == 130
    run = run_of(farm)
    assert run.state is RunState.INTERRUPTED
    assert run.trials >= 5
    assert f"Go on with: tunefarm tune --resume {run.id} --db {farm.db}" in tuner.text()
    assert "Traceback" not in tuner.text()
    budget = run.trials + 4
    farm.run("tune", "--resume", str(run.id), "--trials", str(budget), "--db", farm.db, "--quiet")
    check_resumed(farm, run.trials, budget)


def test_a_tuner_that_was_killed(farm):
    tuner = begin(farm)
    family = psutil.Process(tuner.handle.pid).children(recursive=True)
    assert family
    tuner.end(signal.SIGKILL)
    run = run_of(farm)
    assert run.state is RunState.RUNNING  # it had no chance to say otherwise
    gone, left = psutil.wait_procs(family, timeout=120)
    assert not left, "build workers outlive a killed tuner"
    assert len(gone) == len(family)
    budget = run.trials + 4
    result = farm.json("tune", "--resume", str(run.id), "--trials", str(budget), "--db", farm.db)
    assert result["run"] == run.id
    assert result["tasks"][0]["trials"] == budget
    check_resumed(farm, run.trials, budget)


def test_a_tuner_that_is_killed_again_and_again(farm):
    """At moments of no choosing: in the baseline, between a measurement and its record, in the finals."""
    rng = random.Random(20)
    budget = 30
    upgrade(farm.db)
    command = ["tune", KERNEL, "--trials", str(budget), "--db", farm.db, "--quiet"]
    for life in range(5):
        tuner = farm.start(f"tune-{life}", *command)
        until(lambda tuner=tuner: run_of(farm) is not None or tuner.handle.poll() is not None, tuner.text)
        try:
            tuner.handle.wait(rng.uniform(0.0, 3.0))
        except subprocess.TimeoutExpired:
            tuner.end(signal.SIGKILL)
        command = ["tune", "--resume", str(run_of(farm).id), "--db", farm.db, "--quiet"]
        if run_of(farm).state is RunState.FINISHED:
            break
    if run_of(farm).state is not RunState.FINISHED:
        farm.run(*command)
    with RecordStore.open(farm.db) as store:
        found = list(store.all_trials(run_of(farm).id))
    assert run_of(farm).trials == budget
    assert set(Counter(t.digest for t in found if t.purpose is TrialPurpose.SEARCH).values()) == {1}


def test_a_run_that_is_being_tuned_is_not_resumed(farm):
    tuner = begin(farm)
    run = run_of(farm)
    refused = farm.run("tune", "--resume", str(run.id), "--db", farm.db, "--quiet", code=1)
    assert f"run {run.id} is being tuned by " in refused.stderr
    assert "stop it there first" in refused.stderr
    assert tuner.handle.poll() is None
    assert tuner.end(signal.SIGINT) == 130


def test_a_finished_run_has_nothing_left(farm):
    farm.run("tune", KERNEL, "--trials", "2", "--db", farm.db, "--quiet")
    refused = farm.run("tune", "--resume", "1", "--db", farm.db, code=1)
    assert "run 1 is finished: every workload had its 2 trials" in refused.stderr
    assert "hint: raise the budget: tunefarm tune --resume 1 --trials 4" in refused.stderr
    farm.run("tune", "--resume", "1", "--trials", "4", "--db", farm.db, "--quiet")
    check_resumed(farm, 2, 4)


def test_the_resume_command_names_the_servers(farm):
    _, port = farm.serve("server", "server")
    tuner = begin(farm, "--device", f"127.0.0.1:{port}")
    assert tuner.end() == 130
    assert f"tunefarm tune --resume 1 --db {farm.db} --device 127.0.0.1:{port}" in tuner.text()


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
