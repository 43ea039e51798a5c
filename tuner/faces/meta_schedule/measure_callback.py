"""Callbacks for each result while a run goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tuner.faces.meta_schedule.measure_types import BuilderResult, RunnerResult
from tuner.faces.meta_schedule.record import MeasureCandidate, TuningRecord, Workload

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.task_scheduler import TaskScheduler


class MeasureCallback(ABC):
    """The contract: `apply` is called after each trial, in the order they end.
    After the run it is called for each candidate that the finals measured again, with all samples it had there.
    There are no rounds, so each of the lists has one entry. An exception in it ends the run."""

    CallbackListType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

    @abstractmethod
    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        """Candidate `i` was built and ran as `builder_results[i]` and `runner_results[i]` say."""

    @staticmethod
    def create(kind: str = "default") -> list[MeasureCallback]:
        """The callbacks every run has: the database."""
        return [AddToDatabase()]


PyMeasureCallback = MeasureCallback


class AddToDatabase(MeasureCallback):
    """Commits each measured candidate to the run's database, and rejects what must not be served any more."""

    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        database, context = task_scheduler.database, task_scheduler.tasks[task_id]
        if database is None or context.mod is None:
            return
        for candidate, result in zip(measure_candidates, runner_results):
            secs = None if result.error_msg or not result.run_secs else tuple(result.run_secs)
            record = TuningRecord(candidate.sch.trace, Workload(context.mod), secs, context.target, candidate.args_info)
            if result.disqualified:
                database.reject(record)
            elif secs is not None:
                database.commit_tuning_record(record)


class UpdateCostModel(MeasureCallback):
    """Has the run's cost model learn from each candidate.
    A run with a model of your own has it by default."""

    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        if task_scheduler.cost_model is not None:
            task_scheduler.cost_model.update(task_scheduler.tasks[task_id], measure_candidates, runner_results)


class RemoveBuildArtifact(MeasureCallback):
    """Kept for its name: artifacts are kept in memory, and there is nothing to remove."""

    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        """Do nothing."""
