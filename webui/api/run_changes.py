"""Runs that a client asks for: begin, stop, go on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from tracker.capability import parse_capability
from tuner.devices.supplies import local_target
from tuner.engine.options import RunOptions
from tuner.engine.queued_runs import key_of, queue_run
from tuner.families.family import FamilySpec
from tuner.families.plan import TRIALS as FAMILY_TRIALS
from tuner.kernels.family_jobs import queued_families
from tuner.records.errors import RunBusy
from tuner.records.model import IMPORTED, RunState
from webui.access import Tuner
from webui.api.farm_models import Body
from webui.api.params import Id
from webui.api.replies import CHANGE_ERRORS, ERRORS
from webui.api.run_models import Run
from webui.context import Context, Ctx
from webui.errors import BadRequest, NoLauncher
from webui.launcher import Launcher

router = APIRouter(tags=["runs"], responses={**ERRORS, **CHANGE_ERRORS})


class NewRun(Body):
    """A run to start: operators with their sizes, as `tunefarm tune` takes them (files are not read).
    A workload with a name for a size is tuned for all `shapes`, as `--shapes` lists them. `traffic` is the text of a
    file of counts. `key` chooses the tracker's devices; without a tracker this machine measures. `target` is what to
    build for, by default what the first of the devices is."""

    workloads: list[str] = Field(min_length=1, max_length=200)
    target: str = Field(default="", max_length=4000)
    key: str = Field(default="", max_length=1000)
    trials: int | None = Field(default=None, ge=1, le=1_000_000)
    strategy: str = Field(default=RunOptions.strategy, max_length=100)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    shapes: list[Annotated[str, Field(max_length=4000)]] = Field(default_factory=list, max_length=20)
    traffic: str = Field(default="", max_length=100_000)
    portfolio: int | None = Field(default=None, ge=1, le=100)


@router.post("/runs", status_code=202)
def create_run(context: Ctx, by: Tuner, new: NewRun) -> Run:
    """Begin a run. It is `queued` until its process has a device; follow its events."""
    launcher = launcher_of(context)
    if launcher.has_tracker:
        if not new.key:
            raise BadRequest("a run on the tracker's devices needs their key", hint='"*" stands for any device')
        wanted = parse_capability(new.key)
        target = new.target or context.fleet.target_of(wanted)
    elif new.key:
        raise NoLauncher("this web app has no tracker to lease devices from", hint="leave the key out")
    else:
        target = new.target or local_target()
    symbolic = [word for word in new.workloads if FamilySpec.is_family(word)]
    families = queued_families(symbolic, new.shapes, new.traffic, new.portfolio, target)
    made = queue_run(
        context.store, [word for word in new.workloads if word not in symbolic], target,
        trials=new.trials or (FAMILY_TRIALS if families else RunOptions.trials), strategy=new.strategy, seed=new.seed,
        key=new.key, user=by, families=families, flags=_flags(new),
    )  # fmt: skip
    launcher.start(made.id, new.key)
    return Run.of(made)


def _flags(new: NewRun) -> list[str]:
    """The flags for a run's families in the command that repeats it; their traffic is in no file."""
    flags = [word for shapes in new.shapes for word in ("--shapes", shapes)]
    return flags if new.portfolio is None else [*flags, "--portfolio", str(new.portfolio)]


@router.post("/runs/{run_id}/cancel", status_code=202)
def cancel_run(context: Ctx, by: Tuner, run_id: Id) -> Run:
    """Ask whoever tunes the run, here or elsewhere, to end it, which takes some seconds.
    What was measured stays, and the run can be resumed."""
    return Run.of(context.store.runs.request_stop(run_id, by or "the web app"))


class Resume(Body):
    """`trials`: the budget of each workload from now on, without it the one it had."""

    trials: int | None = Field(default=None, ge=1, le=1_000_000)


@router.post("/runs/{run_id}/resume", status_code=202)
def resume_run(context: Ctx, by: Tuner, run_id: Id, how: Resume | None = None) -> Run:
    """Go on with a run on devices of the key it began with.

    It was interrupted, failed or ran out of its user's quota; with more `trials` also one that is finished.
    """
    launcher = launcher_of(context)
    run = context.store.runs.get(run_id)
    trials = None if how is None else how.trials
    if not run.state.ended:
        raise RunBusy(f"run {run_id} is {run.state} already")
    if run.state is RunState.FINISHED and all(task.trials >= (trials or 0) for task in run.tasks):
        raise BadRequest(f"run {run_id} is finished", hint="give more `trials` than it had, to continue it")
    if IMPORTED in run.options:
        hint = "start a new run of its workloads: it begins with this run's best configs"
        raise BadRequest(f"run {run_id} came from a file of records and cannot be resumed", hint=hint)
    if any("file" in record.get("family", record) for record in run.options.get("workloads", [])):
        hint = f"resume it where the files are: tunefarm tune --resume {run_id}"
        raise NoLauncher(f"run {run_id} tunes kernels from files, which this web app does not read", hint=hint)
    queued = context.store.runs.queue(run_id)
    launcher.start(run_id, key_of(run), trials)
    return Run.of(queued)


def launcher_of(context: Context) -> Launcher:
    """Return what starts runs. Raises NoLauncher where nothing does."""
    if context.launcher is None:
        raise NoLauncher("this web app starts no runs", hint="start it with `tunefarm web`, or use `tunefarm tune`")
    return context.launcher
