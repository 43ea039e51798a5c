"""The models that a recorded run tunes: what their kernels take by now, and what going on should bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tuner.engine.forecaster import WeightedKernel, model_seconds, replayed
from tuner.engine.progress import ModelProgress
from tuner.kernels.model import is_model
from tuner.records.model import Improvement, Run


def model_name(record: Mapping[str, Any]) -> str:
    """The name of the model that a run's record is a kernel of, or ""."""
    file = Path(record.get("file", ""))
    return str(record.get("model", "")) or (file.stem if is_model(file) else "")


def run_title(run: Run) -> str:
    """Return what a run tunes: its models with the number of their kernels, and the names of its other kernels."""
    records = [record for record in run.options.get("workloads", ()) if "family" not in record]
    kernels = Counter(name for record in records if (name := model_name(record)))
    titles = [task.workload.name for task in run.tasks]
    for at, record in enumerate(records[: len(titles)]):
        if kernels[name := model_name(record)] > 1:
            titles[at] = f"{name} ({kernels[name]} kernels)"
    return ", ".join(dict.fromkeys(titles))


def has_models(run: Run) -> bool:
    """Whether it tunes kernels of models."""
    return any(task.model for task in _tasks(run, tuned=False))


def model_progress(
    run: Run, improvements: Iterable[Improvement] = (), rate: float | None = None, left_s: float | None = None
) -> tuple[ModelProgress, ...]:
    """How the run's models stand. The forecast needs the run's `improvements` and its `rate` of trials a second."""
    untuned = model_seconds(_tasks(run, tuned=False))
    now = model_seconds(_tasks(run, tuned=True))
    minute: Mapping[str, float | None] = {}
    if rate and not run.state.ended:
        minute = replayed(_tasks(run, tuned=False), improvements, run.trials, rate, left_s)
    return tuple(ModelProgress(name, untuned[name], now[name], minute.get(name)) for name in untuned)


def _tasks(run: Run, tuned: bool) -> list[WeightedKernel]:
    """The run's tasks as they were, or as a build takes them by now. Families' come last, and are no model's."""
    found = [WeightedKernel("", 1.0, task.baseline_cost) for task in run.tasks]
    records = [record for record in run.options.get("workloads", ()) if "family" not in record]
    for at, (record, task) in enumerate(zip(records, run.tasks, strict=False)):
        known = [task.baseline_cost, task.best_cost] if tuned else [task.baseline_cost]
        cost = min((each for each in known if each is not None), default=None)
        found[at] = WeightedKernel(model_name(record), float(record.get("weight", 1)), cost)
    return found
