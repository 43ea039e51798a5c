"""The pages: each route gathers what its template shows, and nothing else."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response

from tuner.engine.options import RunOptions
from tuner.records.model import Run, RunState, TrialStatus
from tuner.records.store import RecordStore
from tuner.search.registry import strategy_names
from webui.api.params import LARGEST, After, Before, Id
from webui.api.replies import body_of
from webui.api.runs import current_progress, trial_page
from webui.context import Context, Ctx
from webui.forecasts import Accuracy, accuracy_of, forecasts_of
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_RUNS = 30
_TRIALS = 30
_CONFIGS = 50
_CURVES = 8
_FORECASTS = 200


@router.get("/")
def overview(context: Ctx) -> Response:
    runs = context.store.runs(limit=5)
    return render(
        context,
        "overview.html",
        "Overview",
        fleet=context.fleet.view(),
        runs=runs,
        running=sum(run.state is RunState.RUNNING for run in context.store.runs(limit=50)),
        last_news=max((run.updated_at for run in runs if run.trials), default=None),
        configs=context.store.newest_best_configs(5),
        filtered=False,
    )


@router.get("/runs")
def runs(context: Ctx, before: Before = None) -> Response:
    found = context.store.runs(_RUNS + 1, before)
    page = found[:_RUNS]
    following = page[-1].id if len(found) > _RUNS else None
    return render(
        context,
        "runs.html",
        "Runs",
        runs=page,
        next=following,
        older_than=before,
        launcher=context.launcher,
        keys=sorted({device.key for device in context.fleet.view().devices if device.key}),
        strategies=strategy_names(),
        defaults=RunOptions(),
    )


@router.get("/runs/{run_id}")
def run(
    context: Ctx,
    run_id: Id,
    before: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    status: TrialStatus | None = None,
) -> Response:
    found = context.store.run(run_id)
    trials, following = trial_page(context.store, run_id, None, before, status, _TRIALS)
    return render(
        context,
        "run.html",
        "Runs",
        run=found,
        progress=current_progress(context.store, found),
        failures=context.store.failure_histogram(run_id),
        trials=trials,
        names=_names(found),
        curves=_CURVES,
        next=following,
        before=before,
        status="" if status is None else str(status),
        accuracies=_accuracies(context.store, found),
        can_launch=context.launcher is not None,
    )


def _accuracies(store: RecordStore, run: Run) -> dict[int, Accuracy | None]:
    """How well the model knew, by task, of the tasks whose curves are shown."""
    found = {}
    for task in run.tasks[:_CURVES]:
        trials = store.sample_trials(run.id, task.workload.key, _FORECASTS, task.target)
        found[task.id] = accuracy_of(forecasts_of(trials))
    return found


def _names(run: Run) -> dict[int, tuple[str, float | None]]:
    """Name and operations of each task's workload, by task."""
    return {task.id: (task.workload.name, task.workload.flops) for task in run.tasks}


@router.get("/trials/{trial_id}")
def trial(context: Ctx, trial_id: Id) -> Response:
    found = context.store.trial(trial_id)
    workload = context.store.workload(found.workload_key)
    return render(context, "trial.html", "Runs", trial=found, workload=workload)


@router.get("/best")
def configs(context: Ctx, workload: str = "", target: str = "", device_class: str = "", after: After = 0) -> Response:
    given = {"workload": workload.strip(), "target": target.strip(), "device_class": device_class.strip()}
    filters = {name: value for name, value in given.items() if value}
    found = context.store.best_configs(
        after,
        _CONFIGS + 1,
        workload=filters.get("workload"),
        target=filters.get("target"),
        device_class=filters.get("device_class"),
    )
    page = found[:_CONFIGS]
    return render(
        context,
        "configs.html",
        "Best configs",
        configs=page,
        next=page[-1].id if len(found) > _CONFIGS else None,
        after=after,
        query=urlencode(filters),
        filtered=bool(filters),
        targets=[t.text for t in context.store.targets(limit=200)],
        device_classes=context.store.device_classes(limit=200),
        **given,
    )


@router.get("/best/{config_id}")
def config(context: Ctx, request: Request, config_id: Id) -> Response:
    found = context.store.best_config(config_id)
    asked = urlencode({"workload": found.workload_key, "target": found.target, "device_class": found.device_class})
    return render(
        context,
        "config.html",
        "Best configs",
        config=found,
        workload=context.store.workload(found.workload_key),
        base_url=str(request.base_url).rstrip("/"),
        asked=asked,
    )


def error_page(request: Request, error: Exception) -> Response:
    """A page that says what `error` says."""
    status, body = body_of(error)
    context: Context = request.app.state.context
    response = render(context, "error.html", status=status, heading=HTTPStatus(status).phrase, body=body)
    response.status_code = status
    if status == 401:
        response.headers["WWW-Authenticate"] = 'Basic realm="tunefarm"'
    return response
