"""A run whose private server is killed goes on with another, and keeps all its trials."""

from __future__ import annotations

import os
import signal

import psutil

from tests.kit.cli.farm import until
from tests.kit.cli.resume import KERNEL, run_of
from tuner.records.model import RunState
from tuner.records.store import RecordStore

LONG = 20_000  # trials that no test waits for


def listening_child(pid: int) -> int:
    """The process that `pid` has started and that connections can be made to; 0 for none."""
    for child in psutil.Process(pid).children():
        try:
            if any(c.status == psutil.CONN_LISTEN for c in child.net_connections()):
                return child.pid
        except psutil.Error:
            continue
    return 0


def test_a_run_outlives_its_private_server(farm):
    tuner = farm.start("tune", "tune", KERNEL, "--trials", str(LONG), "--db", farm.db)

    def comes_to(trials):
        """It has so many, and goes on."""
        until(lambda: tuner.handle.poll() is not None or measured(farm) >= trials, tuner.text)
        assert tuner.handle.poll() is None, tuner.text()

    comes_to(4)
    killed = listening_child(tuner.handle.pid)
    assert killed, tuner.text()
    os.kill(killed, signal.SIGKILL)
    comes_to(measured(farm) + 4)  # more than may have been under way
    assert listening_child(tuner.handle.pid) != killed
    assert tuner.end(signal.SIGINT) == 130
    assert "Traceback" not in tuner.text()
    run = run_of(farm)
    assert run.state is RunState.INTERRUPTED
    with RecordStore.open(farm.db) as store:
        found = list(store.trials.all(run.id))
    assert sum(trial.purpose == "search" for trial in found) == run.trials
    assert [trial.sequence for trial in found] == list(range(1, len(found) + 1))


def measured(farm):
    run = run_of(farm)
    return run.trials if run is not None else 0
