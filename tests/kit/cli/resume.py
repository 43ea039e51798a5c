"""Runs that are stopped or killed, and what must hold of them once they went on."""

from __future__ import annotations

from collections import Counter

from tests.kit.cli.farm import CliFarm, Process, until
from tuner.records.model import Run, RunState, TrialPurpose
from tuner.records.store import RecordStore

KERNEL = "matmul:32,32,32:float32"


def run_of(farm: CliFarm) -> Run | None:
    with RecordStore.open(farm.db) as store:
        runs = store.runs.newest(limit=1)
        return runs[0] if runs else None


def begin(farm: CliFarm, *flags: str) -> Process:
    """A long run, once it has some trials."""
    tuner = farm.start("tune", "tune", KERNEL, "--trials", "20000", "--db", farm.db, *flags)
    with RecordStore.open(farm.db) as store:
        begun = lambda: any(run.trials >= 5 for run in store.runs.newest())  # noqa: E731
        until(lambda: begun() or tuner.handle.poll() is not None, tuner.text)
    assert tuner.handle.poll() is None, tuner.text()
    return tuner


def check_resumed(farm: CliFarm, before: int, budget: int) -> None:
    """After a resumed run: it reached its budget, and no candidate has two search trials."""
    with RecordStore.open(farm.db) as store:
        (run,) = store.runs.newest()
        found = list(store.trials.all(run.id))
    assert run.state is RunState.FINISHED
    assert run.trials == budget
    searched = Counter(t.digest for t in found if t.purpose is TrialPurpose.SEARCH)
    assert sum(searched.values()) == budget > before
    assert set(searched.values()) == {1}
    # at the run's start and its end; again at the end where that had come when it was killed
    assert sum(t.purpose is TrialPurpose.BASELINE for t in found) in (2, 3)
