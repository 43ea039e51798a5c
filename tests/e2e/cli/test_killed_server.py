"""A run whose private server is killed goes on with another, and loses no trial."""

from __future__ import annotations

import os
import signal

import psutil

from tests.kit.cli.farm import until
from tests.kit.cli.resume import KERNEL, run_of
from tuner.records.model import RunState
from tuner.records.store import RecordStore


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
    tuner = farm.start("tune", "tune", KERNEL, "--trials", "16", "--db", farm.db)
    with RecordStore.open(farm.db) as store:
        begun = lambda: any(run.trials >= 4 for run in store.runs.newest())  # noqa: E731
        until(lambda: begun() or tuner.handle.poll() is not None, tuner.text)
    assert tuner.handle.poll() is None, tuner.text()
    killed = listening_child(tuner.handle.pid)
    assert killed, tuner.text()
    os.kill(killed, signal.SIGKILL)
    assert tuner.handle.wait(120) == 0, tuner.text()
    assert "Traceback" not in tuner.text()
    run = run_of(farm)
    assert (run.state, run.trials) == (RunState.FINISHED, 16)
    with RecordStore.open(farm.db) as store:
        assert sum(trial.purpose == "search" for trial in store.trials.all(run.id)) == 16
