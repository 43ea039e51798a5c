"""Actions of a task: tune itself, find its best record.

Records, contexts and searches are made of tasks, so a task does not know them. This module registers the actions
with `SearchTask` when it is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuner.faces.auto_scheduler.dispatcher import ApplyHistoryBest
from tuner.faces.auto_scheduler.search_policy import SearchPolicy, SketchPolicy
from tuner.faces.auto_scheduler.search_task import SearchTask, TaskActions, act_with
from tuner.faces.auto_scheduler.state import State
from tuner.faces.auto_scheduler.tuning_options import TuningOptions
from tuner.records.store import RecordStore


class _Actions(TaskActions):
    def tune(
        self,
        task: SearchTask,
        options: TuningOptions,
        policy: SearchPolicy | None,
        store: RecordStore | str | Path | None,
    ) -> None:
        from tuner.faces.auto_scheduler.engine_face import tune_tasks  # the engine is only loaded when it is wanted

        policy = SketchPolicy(task, verbose=options.verbose) if policy is None else policy
        tune_tasks([task], [policy], options, store=store)

    def best_state(self, task: SearchTask, log_file: Any, include_compatible: bool) -> State | None:
        history = ApplyHistoryBest(log_file, include_compatible=include_compatible)
        return history.query(task.target, task.workload_key, dag=task.compute_dag)


act_with(_Actions())
