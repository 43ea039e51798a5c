"""What the API answers with about runs and trials."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tuner.records import model
from webui.api.models import Reply
from webui.progress import Progress


class RunTask(Reply):
    """One workload on one target within a run. `trials` of the search are done, `failed` of them failed."""

    id: int
    workload_key: str
    workload_name: str
    flops: float | None
    target: str
    budget: int
    trials: int
    failed: int
    baseline_cost_s: float | None
    best_cost_s: float | None

    @staticmethod
    def of(task: model.RunTask) -> RunTask:
        return RunTask(
            id=task.id,
            workload_key=task.workload.key,
            workload_name=task.workload.name,
            flops=task.workload.flops,
            target=task.target,
            budget=task.budget,
            trials=task.trials,
            failed=task.failed,
            baseline_cost_s=task.baseline_cost,
            best_cost_s=task.best_cost,
        )


class Run(Reply):
    """`command` is what a person types to repeat the run; `message` why it ended."""

    id: int
    name: str
    state: model.RunState
    message: str
    command: str
    host: str
    user: str
    toolchain: dict[str, str]
    started_at: datetime
    finished_at: datetime | None
    updated_at: datetime
    budget: int
    trials: int
    failed: int
    tasks: list[RunTask]

    @staticmethod
    def fields_of(run: model.Run) -> dict[str, Any]:
        return {
            "id": run.id,
            "name": run.name,
            "state": run.state,
            "message": run.message,
            "command": run.command,
            "host": run.host,
            "user": run.user,
            "toolchain": dict(run.toolchain),
            "started_at": run.started_at,
            "finished_at": run.finished_at,
            "updated_at": run.updated_at,
            "budget": run.budget,
            "trials": run.trials,
            "failed": run.failed,
            "tasks": [RunTask.of(task) for task in run.tasks],
        }

    @staticmethod
    def of(run: model.Run) -> Run:
        return Run(**Run.fields_of(run))


class FailureCount(Reply):
    """How often a task's trials failed in one way, and the first one's text."""

    task: int
    kind: str
    count: int
    first_trial: int
    first_text: str

    @staticmethod
    def of(failure: model.FailureCount) -> FailureCount:
        return FailureCount(
            task=failure.task_id,
            kind=str(failure.kind),
            count=failure.count,
            first_trial=failure.first_trial_id,
            first_text=failure.first_text,
        )


class RunProgress(Reply):
    """`rate` is search trials a second; `eta_s` the time left at that rate, null when not known. `quiet_s` is
    set when a running run has not been heard of for suspiciously long."""

    rate: float | None
    eta_s: float | None
    elapsed_s: float
    quiet_s: float | None

    @staticmethod
    def of(progress: Progress) -> RunProgress:
        return RunProgress(
            rate=progress.rate, eta_s=progress.eta_s, elapsed_s=progress.elapsed_s, quiet_s=progress.quiet_s
        )


class RunDetail(Run):
    """A run with its failures and its progress."""

    failures: list[FailureCount]
    progress: RunProgress


class RunPage(Reply):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    runs: list[Run]
    next: int | None


class Trial(Reply):
    """One trial. `cost_s` is the median of `samples_s`; null, as `failure` is set, when there are none."""

    id: int
    run: int
    sequence: int
    task: int
    workload_key: str
    purpose: model.TrialPurpose
    status: model.TrialStatus
    failure: str | None
    failure_text: str
    digest: str | None
    device: str | None
    cost_s: float | None
    mad_s: float | None
    samples_s: list[float]
    noise: list[str]
    verified: bool
    improved: bool
    suspect: bool
    build_s: float | None
    measure_s: float | None
    finished_at: datetime

    @staticmethod
    def fields_of(trial: model.Trial) -> dict[str, Any]:
        return {
            "id": trial.id,
            "run": trial.run_id,
            "sequence": trial.sequence,
            "task": trial.task_id,
            "workload_key": trial.workload_key,
            "purpose": trial.purpose,
            "status": trial.status,
            "failure": None if trial.failure is None else str(trial.failure),
            "failure_text": trial.failure_text,
            "digest": trial.digest,
            "device": trial.device,
            "cost_s": trial.cost,
            "mad_s": trial.mad,
            "samples_s": list(trial.samples),
            "noise": list(trial.noise),
            "verified": trial.verified,
            "improved": trial.improved,
            "suspect": trial.suspect,
            "build_s": trial.build_s,
            "measure_s": trial.measure_s,
            "finished_at": trial.finished_at,
        }

    @staticmethod
    def of(trial: model.Trial) -> Trial:
        return Trial(**Trial.fields_of(trial))


class TrialDetail(Trial):
    """With the trace (JSON text; null for the untuned function) and what is known of the measurement."""

    trace: str | None
    target: str
    device_class: str | None
    environment: dict[str, float]
    started_at: datetime


class TrialPage(Reply):
    """`next` is the `after` (or `before`, when that was asked for) of the next page; null on the last one."""

    trials: list[Trial]
    next: int | None


class RecordPage(Reply):
    """`next` is the `after` of the next page; null on the last one, and only there."""

    trials: list[Trial]
    next: str | None


class CurvePoint(Reply):
    """The best cost from this trial on."""

    trial: int
    sequence: int
    elapsed_s: float
    cost_s: float


class TrialPoint(Reply):
    """A trial on a scatter plot; `cost_s` is null when it failed."""

    sequence: int
    elapsed_s: float
    cost_s: float | None


class TaskCurve(Reply):
    """The best-so-far curve of one task, and its trials, thinned out when there are many."""

    task: RunTask
    points: list[CurvePoint]
    trials: list[TrialPoint]


class CurveReply(Reply):
    """`sequence` is the number of the run's last trial in it."""

    run: int
    state: model.RunState
    sequence: int
    curves: list[TaskCurve]
