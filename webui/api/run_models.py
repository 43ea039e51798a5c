"""Replies of the API about runs and trials."""

from __future__ import annotations

from typing import Any, Self

from tuner.engine.progress import ModelProgress
from tuner.records import model
from webui.api.shown import ApiObject, Shown, shows
from webui.progress import Progress


@shows(
    model.RunTask,
    renamed={"baseline_cost": "baseline_cost_s", "best_cost": "best_cost_s"},
    without=("position", "workload"),
)
class RunTask(Shown):
    """One workload on one target within a run. `trials` of the search are done, `failed` of them failed."""

    workload_key: str
    workload_name: str
    flops: float | None

    @classmethod
    def of(cls, record: model.RunTask, **more: Any) -> Self:
        workload = record.workload
        return super().of(record, workload_key=workload.key, workload_name=workload.name, flops=workload.flops, **more)


@shows(model.Run, without=("options", "use"))
class Run(Shown):
    """`command` is what a person types to repeat the run; `message` why it ended.
    Devices were held for it for `held_s` seconds, all together, and measured in `busy_s` of them."""

    budget: int
    tasks: list[RunTask]
    held_s: float
    busy_s: float

    @classmethod
    def of(cls, record: model.Run, **more: Any) -> Self:
        tasks, use = [RunTask.of(task) for task in record.tasks], record.use
        return super().of(record, budget=record.budget, tasks=tasks, held_s=use.held_s, busy_s=use.busy_s, **more)


@shows(model.FailureCount, renamed={"task_id": "task", "first_trial_id": "first_trial"})
class FailureCount(Shown):
    """How often a task's trials failed in one way, and the first one's text."""

    kind: str


@shows(Progress)
class RunProgress(Shown):
    """`rate` is search trials a second; `eta_s` the time left at that rate, null when not known.
    `quiet_s` is set when a running run has not been heard of for suspiciously long."""


@shows(
    ModelProgress,
    renamed={"name": "model", "untuned": "untuned_s", "best": "now_s", "minute": "next_minute_saves_s"},
    without=("in_finals",),
)
class RunModel(Shown):
    """A model that a run tunes: the seconds of a run of its kernels untuned and by now.
    With them comes what the next minute of tuning should save of them. Null for what is not known."""


class RunDetail(Run):
    """A run with its failures, its progress, and the models that it tunes."""

    failures: list[FailureCount]
    progress: RunProgress
    models: list[RunModel]


class RunPage(ApiObject):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    runs: list[Run]
    next: int | None


_DETAIL = ("trace", "target", "device_class", "environment", "started_at")


@shows(
    model.Trial,
    renamed={"run_id": "run", "task_id": "task", "cost": "cost_s", "mad": "mad_s", "samples": "samples_s"},
    without=(*_DETAIL, "device_id", "measured_by"),
)
class Trial(Shown):
    """One trial. `cost_s` is the median of `samples_s`; null, as `failure` is set, when there are none."""

    failure: str | None


@shows(model.Trial, only=_DETAIL)
class TrialDetail(Trial):
    """A trial with its trace and what is known of the measurement.
    The trace is JSON text; null for the untuned function."""


class TrialPage(ApiObject):
    """`next` is the `after` (or `before`, when that was asked for) of the next page; null on the last one."""

    trials: list[Trial]
    next: int | None


class RecordPage(ApiObject):
    """`next` is the `after` of the next page; null on the last one, and only there."""

    trials: list[Trial]
    next: str | None


@shows(model.CurvePoint, renamed={"trial_id": "trial", "cost": "cost_s"})
class CurvePoint(Shown):
    """The best cost from this trial on."""

    sequence: int


class TrialPoint(ApiObject):
    """A trial on a scatter plot; `cost_s` is null when it failed."""

    sequence: int
    elapsed_s: float
    cost_s: float | None


class TaskCurve(ApiObject):
    """The best-so-far curve of one task, and its trials, thinned out when there are many."""

    task: RunTask
    points: list[CurvePoint]
    trials: list[TrialPoint]


class CurveReply(ApiObject):
    """`sequence` is the number of the run's last trial in it."""

    run: int
    state: model.RunState
    sequence: int
    curves: list[TaskCurve]
