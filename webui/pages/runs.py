"""Runs: their list, one of them with its trials, one trial."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response

from tuner.engine.options import RunOptions
from tuner.families.stored import families_of_run
from tuner.records.model import Run, TrialStatus
from tuner.records.paging import split_page
from tuner.records.store import RecordStore
from tuner.search.registry import strategy_names
from webui.api.model_routes import viewer_of
from webui.api.params import LARGEST, Before, Id
from webui.api.runs import current_models, current_progress, trial_page
from webui.context import Ctx
from webui.forecasts import Accuracy, accuracy_of, forecasts_of
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_RUNS = 30
_TRIALS = 30
_CURVES = 8
_FORECASTS = 200


@router.get("/runs")
def runs(context: Ctx, before: Before = None) -> Response:
    page, following = split_page(context.store.runs.newest(_RUNS + 1, before), _RUNS)
    return render(
        context, "runs.html", "Runs", runs=page, next=following, older_than=before, launcher=context.launcher,
        keys=sorted({device.key for device in context.fleet.view().devices if device.key}), strategies=strategy_names(),
        defaults=RunOptions(),
    )  # fmt: skip


@router.get("/runs/{run_id}")
def run(
    context: Ctx,
    request: Request,
    run_id: Id,
    before: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    status: TrialStatus | None = None,
) -> Response:
    found = context.store.runs.get(run_id)
    now = current_progress(context.store, found)
    models = current_models(context.store, found, now)
    trials, following = trial_page(context.store, run_id, None, before, status, _TRIALS)
    return render(
        context, "run.html", "Runs", run=found, progress=now, models=models,
        model_ids=context.store.models.of_run(run_id, viewer_of(request)) if models else {},
        families=families_of_run(context.store, found), failures=context.store.runs.failures(run_id), trials=trials,
        names=_names(found), curves=_CURVES, next=following, before=before,
        status="" if status is None else str(status), accuracies=_accuracies(context.store, found),
        can_launch=context.launcher is not None,
    )  # fmt: skip


def _accuracies(store: RecordStore, run: Run) -> dict[int, Accuracy | None]:
    """How well the model predicted, for each task whose curve is shown."""
    found = {}
    for task in run.tasks[:_CURVES]:
        trials = store.trials.sample(run.id, task.workload.key, _FORECASTS, task.target)
        found[task.id] = accuracy_of(forecasts_of(trials))
    return found


def _names(run: Run) -> dict[int, tuple[str, float | None]]:
    """Name and operations of each task's workload, by task."""
    return {task.id: (task.workload.name, task.workload.flops) for task in run.tasks}


@router.get("/trials/{trial_id}")
def trial(context: Ctx, trial_id: Id) -> Response:
    found = context.store.trials.get(trial_id)
    workload = context.store.workloads.find(found.workload_key)
    return render(context, "trial.html", "Runs", trial=found, workload=workload)
