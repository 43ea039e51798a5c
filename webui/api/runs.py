"""Runs and their trials."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Query

from tuner.engine.progress import ModelProgress
from tuner.kernels.run_models import has_models, model_progress
from tuner.records import model
from tuner.records.db.types import utcnow
from tuner.records.paging import split_page
from tuner.records.store import RecordStore
from webui.api.params import LARGEST, Before, Id
from webui.api.replies import ERRORS
from webui.api.run_models import (
    CurvePoint,
    CurveReply,
    FailureCount,
    Run,
    RunDetail,
    RunModel,
    RunPage,
    RunProgress,
    RunTask,
    TaskCurve,
    Trial,
    TrialDetail,
    TrialPage,
    TrialPoint,
)
from webui.context import Ctx
from webui.errors import BadRequest
from webui.progress import WINDOW, Progress, progress

router = APIRouter(tags=["runs"], responses=ERRORS)

_LAST = 2**31 - 1  # above every sequence number


@router.get("/runs")
def runs(context: Ctx, before: Before = None, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> RunPage:
    """Runs, newest first."""
    page, following = split_page(context.store.runs.newest(limit + 1, before), limit)
    return RunPage(runs=[Run.of(run) for run in page], next=following)


@router.get("/runs/{run_id}")
def run(context: Ctx, run_id: Id) -> RunDetail:
    """One run, its failures by kind and its progress."""
    return run_detail(context.store, run_id)


def run_detail(store: RecordStore, run_id: int) -> RunDetail:
    found = store.runs.get(run_id)
    now = current_progress(store, found)
    return RunDetail.of(
        found,
        failures=[FailureCount.of(failure) for failure in store.runs.failures(run_id)],
        progress=RunProgress.of(now),
        models=[RunModel.of(known) for known in current_models(store, found, now)],
    )


def current_progress(store: RecordStore, run: model.Run) -> Progress:
    latest = store.trials.page(run.id, before=_LAST, limit=WINDOW, with_trace=False)
    return progress(run, latest, utcnow())


def current_models(store: RecordStore, run: model.Run, now: Progress) -> tuple[ModelProgress, ...]:
    """The models that a run tunes, with what going on with it should bring."""
    if not has_models(run):
        return ()
    going = run.state is model.RunState.RUNNING
    return model_progress(run, store.runs.improvements(run.id) if going else (), now.rate, now.eta_s)


@router.get("/runs/{run_id}/trials")
def trials(
    context: Ctx,
    run_id: Id,
    after: Annotated[int | None, Query(ge=0, le=LARGEST, description="only trials after this sequence number")] = None,
    before: Annotated[
        int | None, Query(ge=0, le=LARGEST, description="only trials before this one, latest first; 0: from the end")
    ] = None,
    status: Annotated[model.TrialStatus | None, Query(description="only such trials")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> TrialPage:
    """A run's trials, in order, or from the end with `before`."""
    if after is not None and before is not None:
        raise BadRequest("give after or before, not both")
    context.store.runs.get(run_id)
    page, following = trial_page(context.store, run_id, after, before, status, limit)
    return TrialPage(trials=[Trial.of(trial) for trial in page], next=following)


def trial_page(
    store: RecordStore, run_id: int, after: int | None, before: int | None, status: model.TrialStatus | None, limit: int
) -> tuple[Sequence[model.Trial], int | None]:
    """A page and the cursor of the next one. `before` 0 starts at the end."""
    last = _LAST if before == 0 else before
    found = store.trials.page(run_id, after, limit + 1, status, before=last, with_trace=False)
    return split_page(found, limit, attrgetter("sequence"))


@router.get("/trials/{trial_id}")
def trial(context: Ctx, trial_id: Id) -> TrialDetail:
    """One trial with its trace and the full text of its failure."""
    found = context.store.trials.get(trial_id)
    return TrialDetail.of(found)


@router.get("/runs/{run_id}/curve")
def curve(
    context: Ctx,
    run_id: Id,
    workload: Annotated[str | None, Query(description="only this workload key")] = None,
    max_points: Annotated[int, Query(ge=2, le=5000, description="most points a curve")] = 500,
) -> CurveReply:
    """The best-so-far curve of each of the run's tasks, and its trials as points, thinned out when many."""
    found = context.store.runs.get(run_id)
    tasks = [task for task in found.tasks if workload in (None, task.workload.key)]
    curves = [_task_curve(context.store, found, task, max_points) for task in tasks]
    shown = [p.sequence for c in curves for p in c.points] + [t.sequence for c in curves for t in c.trials]
    return CurveReply(run=run_id, state=found.state, sequence=max(shown, default=0), curves=curves)


def _task_curve(store: RecordStore, run: model.Run, task: model.RunTask, max_points: int) -> TaskCurve:
    key = task.workload.key
    points = [CurvePoint.of(p) for p in store.runs.best_curve(run.id, key, max_points, task.target)]
    sampled = [
        TrialPoint(sequence=t.sequence, elapsed_s=(t.finished_at - run.started_at).total_seconds(), cost_s=t.cost)
        for t in store.trials.sample(run.id, key, max_points, task.target)
        if t.purpose is not model.TrialPurpose.BASELINE
    ]
    return TaskCurve(task=RunTask.of(task), points=points, trials=sampled)
