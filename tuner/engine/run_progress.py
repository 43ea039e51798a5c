"""How far a run is: the engine's state in the words of a watcher. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.engine.options import RunOptions
from tuner.engine.progress import TaskProgress
from tuner.engine.task_state import TaskState
from tuner.task import TuningTask


def task_progress(
    task: TuningTask, state: TaskState, options: RunOptions, tasks: int, error: str | None
) -> TaskProgress:
    """One task of a run of `tasks`. Where only the run is limited, its budget is taken to be an even share."""
    share = -(-options.total_trials // tasks)
    return TaskProgress(
        name=task.name,
        done=state.done,
        budget=max(state.asked, min(options.trials or share, share or options.trials)),
        flops=task.flops,
        baseline_cost=state.baseline_cost,
        best_cost=state.best_cost,
        failures=dict(state.failures),
        ended=state.ended,
        error=error,
        known=state.known,
        last_baseline_cost=state.last_baseline_cost,
    )


def time_left(options: RunOptions, tasks: Sequence[TaskProgress], rate: float, elapsed_s: float) -> float | None:
    """Seconds until the first limit is reached at `rate` trials a second; None while that cannot be guessed."""
    guesses = [options.seconds - elapsed_s] if options.seconds else []
    if options.task_seconds:
        guesses.append(options.task_seconds * len(tasks) - elapsed_s)
    left = sum(t.budget - t.done for t in tasks if not t.ended)
    if options.total_trials:
        left = min(left, options.total_trials - sum(t.done for t in tasks))
    if rate > 0 and elapsed_s > 1 and (options.trials or options.total_trials):
        guesses.append(left / rate)
    return max(0.0, min(guesses)) if guesses else None
