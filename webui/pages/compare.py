"""Pages of a run's decisions, and of two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from tuner.records.errors import RecordNotFound
from tuner.records.model import Run, RunTask, Trial, TrialPurpose
from tuner.records.run_pairs import pairs_of
from tuner.records.store import RecordStore
from webui.api.params import Id, Number
from webui.context import Ctx
from webui.decisions import DecidedCandidate, DecisionChoice, choices_of, rank_choices, rank_pairs
from webui.errors import BadRequest
from webui.forecasts import accuracy_of, forecasts_of
from webui.pages.figures import parallel_coordinates, scatter
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_CANDIDATES = 500
_AXES = 9


# --- what the candidates chose -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """The decisions of a task's measured candidates, and how much each mattered."""

    run: Run
    task: RunTask
    trials: tuple[Trial, ...]
    candidates: list[DecidedCandidate]
    choices: tuple[DecisionChoice, ...]


def chosen_in(store: RecordStore, run_id: int, position: int) -> Chosen:
    """Return the choices in a run's workload number `position`, from trials spread over the run.

    Raises RecordNotFound.
    """
    run = store.runs.get(run_id)
    task = next((t for t in run.tasks if t.position == position), None)
    if task is None:
        raise RecordNotFound(f"run {run_id} has no workload number {position}")
    trials = store.trials.sample(run_id, task.workload.key, _CANDIDATES, task.target, with_trace=True)
    candidates = _candidates(trials)
    return Chosen(run, task, trials, candidates, rank_choices(candidates))


@router.get("/runs/{run_id}/choices")
def choices(context: Ctx, run_id: Id, task: int = 0) -> Response:
    found = chosen_in(context.store, run_id, task)
    forecasts = forecasts_of(found.trials)
    return render(
        context, "choices.html", "Runs", run=found.run, task=found.task, candidates=len(found.candidates),
        tried=found.task.trials, choices=found.choices, pairs=rank_pairs(found.candidates, found.choices),
        picture=parallel_coordinates(found.candidates, found.choices[:_AXES][::-1]) if found.choices else None,
        accuracy=accuracy_of(forecasts), forecast=scatter(forecasts) if len(forecasts) > 1 else None,
    )  # fmt: skip


def _candidates(trials: Sequence[Trial]) -> list[DecidedCandidate]:
    return [
        DecidedCandidate(trial.sequence, trial.cost, choices_of(trial.trace))
        for trial in trials
        if trial.cost is not None and trial.trace is not None and trial.purpose is TrialPurpose.SEARCH
    ]


# --- two runs ------------------------------------------------------------------------------------------------


@router.get("/compare")
def compare_runs(context: Ctx, a: Number | None = None, b: Number | None = None) -> Response:
    if a is None:
        return render(context, "compare_choose.html", "Runs", left=None, others=context.store.runs.newest(limit=30))
    left = context.store.runs.get(a)
    if b is None:
        others = [run for run in context.store.runs.newest(limit=30) if run.id != a and _share(left, run)]
        return render(context, "compare_choose.html", "Runs", left=left, others=others)
    if a == b:
        raise BadRequest(f"run {a} cannot be compared with itself", hint="give the number of another run as b")
    right = context.store.runs.get(b)
    pairs = pairs_of(context.store, left, right)
    return render(context, "compare.html", "Runs", left=left, right=right, pairs=pairs)


def _share(left: Run, right: Run) -> bool:
    return bool({task.workload.key for task in left.tasks} & {task.workload.key for task in right.tasks})
