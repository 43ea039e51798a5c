"""Why trials of a run failed, in words."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.number_text import counted
from tuner.records.db.passwords import shown_command
from tuner.records.model import FailureCount, Run

_MOST_SHOWN = 200
"""Characters of a failure's first line beside the summary."""


def all_failed(run: Run, failures: Sequence[FailureCount], db: str | None) -> list[str]:
    """Return a line for each task of which no trial succeeded.
    It has the commonest failure, the first such one's text, and the command that shows all of it."""
    command = shown_command(["tunefarm", "runs", "--failures", str(run.id), *(["--db", db] if db else [])])
    found = []
    for task in run.tasks:
        mine = [failure for failure in failures if failure.task_id == task.id]
        if not mine or task.trials == 0 or task.failed < task.trials:
            continue
        often = max(mine, key=lambda failure: failure.count)
        share = "all" if often.count >= task.trials else f"{often.count}"
        said = _gist(often.first_text)
        found.append(
            f"{task.workload.name}: {counted(task.trials, 'trial')} failed and none succeeded, "
            f"{share} with {often.kind}{f', first: {said}' if said else ''}; see them: {command}"
        )
    return found


def _gist(text: str) -> str:
    """The most telling line of a failure's text: a compiler's first error, else the first line."""
    lines = text.strip().splitlines() or [""]
    return next((line for line in lines if "error:" in line), lines[0]).strip()[:_MOST_SHOWN]


def failures_text(run: Run, failures: Sequence[FailureCount]) -> str:
    """Return each way in which trials of a run failed, how often, and the whole text of the first."""
    names = {task.id: task.workload.name for task in run.tasks}
    parts = []
    for failure in failures:
        text = failure.first_text.strip() or "nothing more is known"
        indented = "\n".join(f"  {line}" for line in text.splitlines())
        often = f"{failure.count} {failure.kind}, first trial {failure.first_trial_id}"
        parts.append(f"{names[failure.task_id]}: {often}\n{indented}")
    return "\n".join(parts) or f"no trial of run {run.id} failed"
