"""Rate and time left."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.kit.records.seed import seed
from tuner.records.model import RunState
from tuner.records.store import RecordStore
from webui.api.runs import current_progress
from webui.progress import QUIET_S, progress

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> RecordStore:
    return RecordStore.open(shutil.copyfile(sqlite_template, tmp_path / "r.db"))


def test_a_running_run(store: RecordStore) -> None:
    ids = seed(store, NOW)
    run = store.runs.get(ids.running)
    latest = store.trials.page(run.id, limit=1000, with_trace=False)
    last = max(t.finished_at for t in latest)
    found = progress(run, latest, last)
    assert found.rate == pytest.approx(1 / 0.24)
    assert found.eta_s == pytest.approx((800 - 110) * 0.24)
    # a silence counts against the rate
    later = progress(run, latest, last + timedelta(seconds=60))
    assert later.rate is not None
    assert later.rate < 2


def test_a_run_not_heard_of(store: RecordStore) -> None:
    run = store.runs.get(seed(store, NOW).running)
    assert progress(run, (), run.updated_at + timedelta(seconds=QUIET_S / 2)).quiet_s is None
    assert progress(run, (), run.updated_at + timedelta(seconds=2 * QUIET_S)).quiet_s == 2 * QUIET_S


def test_an_ended_run_has_a_rate_and_no_time_left(store: RecordStore) -> None:
    ids = seed(store, NOW)
    found = current_progress(store, store.runs.get(ids.finished))
    assert (found.eta_s, found.quiet_s, found.elapsed_s) == (None, None, 41.0)
    assert found.rate == pytest.approx(128 / 41)


def test_too_few_trials_give_no_rate(store: RecordStore) -> None:
    ids = seed(store, NOW)
    store.runs.set_state(ids.failed, RunState.RUNNING)
    run = store.runs.get(ids.failed)
    assert progress(run, store.trials.page(run.id, limit=2), NOW).eta_s is None
