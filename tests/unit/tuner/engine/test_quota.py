"""Runs that their user's quota of device hours stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpc_server.machine.user_name import user_name
from rpc_server.wire.trial_messages import MeasureResult
from tests.kit.tuner.engine import Driver, engine
from tuner.devices.supplies import local_target
from tuner.engine.budget import BudgetLimits
from tuner.engine.engine import EngineRun, tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, sketch_search
from tuner.engine.replay import ReplayBuilder, ReplayFleet
from tuner.engine.run_recorder import RunRecorder
from tuner.records.errors import QuotaExceeded
from tuner.records.farm.quotas import Quota
from tuner.records.model import Run, RunState
from tuner.records.store import RecordStore
from tuner.task import TuningTask

LITTLE = 1e-7
"""Device hours: less than any trial takes."""


def search() -> TaskSearch:
    return sketch_search(TuningTask.from_spec("matmul:16,16,16", local_target()), "random")


def fleet() -> ReplayFleet:
    return ReplayFleet(lambda _name: MeasureResult(costs=(1e-3,)), seconds=0.01)


def tuned(store: RecordStore, **options: float) -> Run:
    limits = RunOptions(**{"trials": 2000, "finalists": 0, **options})  # type: ignore[arg-type]
    outcome = tune([search()], fleet=fleet(), builder=ReplayBuilder(), options=limits, store=store)
    return store.runs.get(outcome.snapshot.run_id)


def test_a_quota_stops_a_run_that_can_go_on_later(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        store.quotas.put(Quota(user=user_name(), device_hours=LITTLE))
        run = tuned(store)
        assert (run.state, run.message) == (
            RunState.OUT_OF_QUOTA,
            "the quota of less than 0.00001 device hours within 30 days is used up",
        )
        assert run.state.ended
        assert run.trials < run.budget
        with pytest.raises(QuotaExceeded):
            store.runs.queue(run.id)
        with pytest.raises(QuotaExceeded):
            RunRecorder.resume(store, run.id, [search().task])
        store.quotas.put(Quota(user=user_name(), device_hours=100))
        again = RunRecorder.resume(store, run.id, [search().task])
        options = RunOptions(trials=run.trials + 2, finalists=0)
        EngineRun([search()], fleet(), ReplayBuilder(), again, options).run()
        assert store.runs.get(run.id).state is RunState.FINISHED


def test_a_run_that_had_its_own_hours_is_finished(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        store.quotas.put(Quota(user=user_name(), device_hours=100))
        assert tuned(store, device_hours=LITTLE).state is RunState.FINISHED


def test_what_could_go_on_without_the_quota() -> None:
    state, _ = engine(tasks=2, offered=6, trials=4)
    Driver(state).run()
    assert not state.would_go_on(BudgetLimits(trials=4))
    assert state.would_go_on(BudgetLimits(trials=5))
    assert not state.would_go_on(BudgetLimits(trials=5), besides={0, 1})
    whole, _ = engine(offered=3, trials=4)
    Driver(whole).run()
    assert not whole.would_go_on(BudgetLimits(trials=5)), "there is nothing left to try"
