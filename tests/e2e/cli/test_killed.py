"""Tuners that die at any moment: what they had measured stays, what they started goes, and the run goes on."""

from __future__ import annotations

import random
import signal
import subprocess
from collections import Counter

import psutil

from tests.kit.cli.farm import PATIENCE_S, until
from tests.kit.cli.resume import KERNEL, begin, check_resumed, run_of
from tuner.records.model import RunState, TrialPurpose
from tuner.records.store import RecordStore


def test_a_tuner_that_was_killed(farm):
    tuner = begin(farm)
    family = psutil.Process(tuner.handle.pid).children(recursive=True)
    assert family
    tuner.end(signal.SIGKILL)
    run = run_of(farm)
    assert run.state is RunState.RUNNING  # it had no chance to say otherwise
    gone, left = psutil.wait_procs(family, timeout=PATIENCE_S)
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
    budget = 12
    command = ["tune", KERNEL, "--trials", str(budget), "--db", farm.db, "--quiet"]
    for life in range(3):
        tuner = farm.start(f"tune-{life}", *command)
        until(lambda tuner=tuner: run_of(farm) is not None or tuner.handle.poll() is not None, tuner.text)
        try:
            tuner.handle.wait(rng.uniform(0.0, 3.0))
        except subprocess.TimeoutExpired:
            tuner.end(signal.SIGKILL)
        command = ["tune", "--resume", str(run_of(farm).id), "--db", farm.db, "--quiet"]
        if run_of(farm).state is RunState.FINISHED:
            break
    said = farm.run(*command) if run_of(farm).state is not RunState.FINISHED else "finished before it was resumed"
    with RecordStore.open(farm.db) as store:
        found = list(store.trials.all(run_of(farm).id))
    assert run_of(farm).trials == budget, (run_of(farm).state, said)
    assert set(Counter(t.digest for t in found if t.purpose is TrialPurpose.SEARCH).values()) == {1}
