"""A recorded run to look at in a notebook.

Its trials as a data frame, its progress as a curve, its best configs.

pandas and matplotlib are asked for when they are used; the extra `notebook` installs both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from compiler.errors import TunefarmError
from tunefarm.settings import load
from tuner.engine.progress import gflops
from tuner.kernels.space import config_of
from tuner.records.errors import RecordNotFound
from tuner.records.lookup.result import measurements, result_of
from tuner.records.model import Run, RunTask, Trial, TrialPurpose
from tuner.records.store import RecordStore

__all__ = ["BestTrial", "MissingExtraError", "TuningRun", "load_run"]


class MissingExtraError(TunefarmError, ImportError, kind="missing_extra"):
    """An optional package that this needs is not installed."""


@dataclass(frozen=True)
class BestTrial:
    """The fastest verified candidate of a kernel in a run.
    `cost`: seconds a call, the median of its samples in the last comparison, or in the search where there was none.
    `speedup` is against the untuned build."""

    kernel: str
    cost: float
    speedup: float | None
    gflops: float | None
    trial: Trial

    @property
    def config(self) -> Mapping[str, Any]:
        """The config of a kernel of one's own; for a schedule the trace, as JSON data."""
        return _config(self.trial.trace or "{}")


@dataclass(frozen=True)
class TuningRun:
    """One run in the record store at `address`.
    Each call reads the store as it is then, so a run that still goes on can be watched; none keeps it open."""

    address: str
    run_id: int

    @property
    def record(self) -> Run:
        """The run as the store has it: state, options, tasks, counts."""
        with RecordStore.open(self.address) as store:
            return store.runs.get(self.run_id)

    def trials(self) -> tuple[Trial, ...]:
        """Every trial, in the order of arrival."""
        with RecordStore.open(self.address) as store:
            return tuple(store.trials.all(self.run_id))

    def best(self) -> tuple[BestTrial | None, ...]:
        """The fastest of each kernel, in the run's order; None where nothing was measured."""
        run, trials = self._read()
        return tuple(_best(task, [t for t in trials if t.task_id == task.id]) for task in run.tasks)

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame with a row for each trial.
        Its columns are kernel, purpose, status, cost_s, best_s (the lowest so far of the kernel), gflops, failure,
        config, device, noise, times. Raises MissingExtraError."""
        pandas = _extra("pandas")
        run, trials = self._read()
        return pandas.DataFrame(_rows(run, trials), columns=list(_COLUMNS))

    def plot(self, ax: Any = None) -> Any:
        """Draw the lowest cost so far over the trials, a line for each kernel.
        Each trial is a dot, and the untuned build a dashed line. Returns the matplotlib Axes. Raises
        MissingExtraError."""
        pyplot = _extra("matplotlib.pyplot")
        run, trials = self._read()
        axes = pyplot.subplots()[1] if ax is None else ax
        for task in run.tasks:
            rows = [r for r in _rows(run, trials) if r["task"] == task.position and r["purpose"] == TrialPurpose.SEARCH]
            numbers = range(1, len(rows) + 1)
            found = [(at, row["best_s"]) for at, row in zip(numbers, rows) if row["best_s"] is not None]
            (line,) = axes.step(*_columns(found), where="post", label=task.workload.name)
            tried = [(at, row["cost_s"]) for at, row in zip(numbers, rows) if row["cost_s"] is not None]
            axes.scatter(*_columns(tried), s=8, alpha=0.35, color=line.get_color())
            if task.baseline_cost is not None:
                axes.axhline(task.baseline_cost, color=line.get_color(), linestyle="--", linewidth=0.8)
        axes.set(xlabel="trial", ylabel="seconds a call", yscale="log", title=f"Run {run.id}")
        axes.legend()
        return axes

    def _read(self) -> tuple[Run, list[Trial]]:
        with RecordStore.open(self.address) as store:
            return store.runs.get(self.run_id), list(store.trials.all(self.run_id))

    def _repr_html_(self) -> str:
        run, trials = self._read()
        head = ("kernel", "untuned", "best", "speedup", "GFLOP/s", "trials", "failed")
        rows = []
        for task in run.tasks:
            best = _best(task, [t for t in trials if t.task_id == task.id])
            rows.append((
                task.workload.name,
                _microseconds(task.baseline_cost),
                _microseconds(best.cost if best else None),
                f"{best.speedup:.1f}x" if best and best.speedup else "–",
                f"{best.gflops:.1f}" if best and best.gflops else "–",
                f"{task.trials}/{task.budget}" if task.budget else str(task.trials),
                str(task.failed),
            ))  # fmt: skip
        body = "".join(_html_row("td", row) for row in rows)
        caption = f"Run {run.id}: {run.state}, {run.trials} trials"
        return f"<table><caption>{escape(caption)}</caption>{_html_row('th', head)}{body}</table>"


def load_run(db: str | Path | None = None, run_id: int | None = None) -> TuningRun:
    """Return the run `run_id` of the record store at `db`.

    Without them, it is the newest run of the store that the settings name. Raises StoreMissing, RecordNotFound.
    """
    address = str(db) if db is not None else load().db
    with RecordStore.open(address) as store:
        if run_id is not None:
            return TuningRun(address, store.runs.get(run_id).id)
        newest = store.runs.newest(limit=1)
        if not newest:
            raise RecordNotFound(f"{store.address} has no run", hint="tunefarm tune makes one")
        return TuningRun(address, newest[0].id)


_COLUMNS = (
    "trial", "task", "kernel", "target", "purpose", "status", "cost_s", "best_s", "gflops", "mad_s", "samples",
    "failure", "failure_text", "verified", "noise", "config", "digest", "device", "device_class", "build_s",
    "measure_s", "started_at", "finished_at",
)  # fmt: skip


def _rows(run: Run, trials: Sequence[Trial]) -> Iterator[dict[str, Any]]:
    """A dictionary of `_COLUMNS` for each trial."""
    tasks = {task.id: task for task in run.tasks}
    lowest: dict[int, float] = {}
    for trial in trials:
        task = tasks[trial.task_id]
        searched = trial.purpose is TrialPurpose.SEARCH and trial.verified and trial.cost is not None
        if searched and trial.cost is not None:
            lowest[task.id] = min(trial.cost, lowest.get(task.id, trial.cost))
        yield {
            "trial": trial.sequence,
            "task": task.position,
            "kernel": task.workload.name,
            "target": trial.target,
            "purpose": str(trial.purpose),
            "status": str(trial.status),
            "cost_s": trial.cost,
            "best_s": lowest.get(task.id),
            "gflops": gflops(task.workload.flops or 0.0, trial.cost),
            "mad_s": trial.mad,
            "samples": trial.samples,
            "failure": str(trial.failure) if trial.failure else None,
            "failure_text": trial.failure_text,
            "verified": trial.verified,
            "noise": ",".join(trial.noise),
            "config": trial.trace and _config(trial.trace),
            "digest": trial.digest,
            "device": trial.device,
            "device_class": trial.device_class,
            "build_s": trial.build_s,
            "measure_s": trial.measure_s,
            "started_at": trial.started_at,
            "finished_at": trial.finished_at,
        }


def _best(task: RunTask, trials: Sequence[Trial]) -> BestTrial | None:
    """The task's result, by the definition of `tuner.records.lookup.result`."""
    result = result_of(measurements(trials))
    if result is None:
        return None
    cost, first = result.cost, next(t for t in trials if t.id == result.trial_id)
    speedup = task.baseline_cost / cost if task.baseline_cost else None
    return BestTrial(task.workload.name, cost, speedup, gflops(task.workload.flops or 0.0, cost), first)


def _config(text: str) -> Mapping[str, Any]:
    try:
        return config_of(text)
    except TunefarmError:
        data: Mapping[str, Any] = json.loads(text)
        return data


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _microseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e6:,.1f} µs"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise MissingExtraError(
            f"{package} is not installed", hint="pip install 'tunefarm[notebook]' installs pandas and matplotlib"
        ) from None
