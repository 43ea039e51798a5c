"""The models that a recorded run tunes: their kernels' present times, and what going on should bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.engine.forecaster import WeightedKernel, model_seconds, replayed
from tuner.engine.progress import ModelProgress
from tuner.records.model import Improvement, Run

SUFFIXES = (".onnx", ".pt2")
"""Of files that hold a model."""


def is_model(path: Path) -> bool:
    """Whether a file's name says that it holds a model."""
    return path.suffix in SUFFIXES


def model_name(record: Mapping[str, Any]) -> str:
    """The name of the model that a run's record is a kernel of, or ""."""
    file = Path(record.get("file", ""))
    return str(record.get("model", "")) or (file.stem if is_model(file) else "")


def run_title(run: Run) -> str:
    """Return what a run tunes: its models with the number of their kernels, and its other kernels.
    The others are given by name."""
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
    """How the run's models stand: by the lowest costs so far while it goes on, then by its results.

    Both the lowest costs and the forecast need the run's `improvements`, the forecast also its `rate` of trials a
    second.
    """
    improvements = () if run.state.ended else tuple(improvements)
    untuned = model_seconds(_tasks(run, tuned=False))
    now = model_seconds(_tasks(run, tuned=True, searched=improvements))
    minute: Mapping[str, float | None] = {}
    if rate and not run.state.ended:
        minute = replayed(_tasks(run, tuned=False), improvements, run.trials, rate, left_s)
    return tuple(ModelProgress(name, untuned[name], now[name], minute.get(name)) for name in untuned)


def _tasks(run: Run, tuned: bool, searched: Sequence[Improvement] = ()) -> list[WeightedKernel]:
    """The run's tasks as they were, or as a build takes them by now.

    Families' come last, and are no model's.

    The costs of the search (`searched`) count beside the finals' result, so that a time does not rise while the run
    goes on.
    """
    lowest: dict[int, float] = {}
    for each in searched:
        lowest[each.position] = min(each.cost, lowest.get(each.position, each.cost))
    found = [WeightedKernel("", 1.0, task.baseline_cost) for task in run.tasks]
    records = [record for record in run.options.get("workloads", ()) if "family" not in record]
    for at, (record, task) in enumerate(zip(records, run.tasks, strict=False)):
        known = [task.baseline_cost, task.best_cost, lowest.get(task.position)] if tuned else [task.baseline_cost]
        cost = min((each for each in known if each is not None), default=None)
        found[at] = WeightedKernel(model_name(record), float(record.get("weight", 1)), cost)
    return found
