"""Runs whose process ends before it has taken the run."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.engine.queued_runs import queue_run
from tuner.records.model import RunState
from tuner.records.store import RecordStore
from webui.launcher import ProcessLauncher

TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num-cores=1"


@pytest.fixture
def go_on(tmp_path: Path) -> Path:
    return tmp_path / "go-on"


@pytest.fixture
def launcher(store: RecordStore, go_on: Path) -> ProcessLauncher:
    """Its process waits for a file, and fails."""
    script = f"import os, time\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)\nraise SystemExit('no luck')"
    return ProcessLauncher(store, (sys.executable, "-c", script), "unused")


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_why_it_did_not_begin_is_kept(store: RecordStore, launcher: ProcessLauncher, go_on: Path) -> None:
    run = queue_run(store, ["matmul:32,32,32"], TARGET, trials=2)
    launcher.start(run.id, "")
    go_on.touch()
    until(lambda: store.runs.get(run.id).state is RunState.FAILED)
    assert store.runs.get(run.id).message == "no luck"


def test_a_run_that_was_queued_again_meanwhile_waits_on(
    store: RecordStore, launcher: ProcessLauncher, go_on: Path
) -> None:
    run = queue_run(store, ["matmul:32,32,32"], TARGET, trials=2)
    launcher.start(run.id, "")
    [watcher] = [thread for thread in threading.enumerate() if thread.name == f"run-{run.id}"]
    store.runs.request_stop(run.id, "ann")
    store.runs.set_state(run.id, RunState.QUEUED, "")
    go_on.touch()
    watcher.join(60)
    assert not watcher.is_alive()
    assert store.runs.get(run.id).state is RunState.QUEUED


def test_a_process_that_cannot_be_started_is_a_failed_run(store: RecordStore, tmp_path: Path) -> None:
    run = queue_run(store, ["matmul:32,32,32"], TARGET, trials=2)
    ProcessLauncher(store, (str(tmp_path / "nothing"),), "unused").start(run.id, "")
    failed = store.runs.get(run.id)
    assert (failed.state, failed.message) == (
        RunState.FAILED, "the tuning process could not be started: No such file or directory"
    )  # fmt: skip
