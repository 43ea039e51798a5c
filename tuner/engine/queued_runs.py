"""Runs that are asked for now and tuned by another process: `tunefarm tune --resume` takes them up."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.target.target import Target
from tuner.engine.options import RunOptions
from tuner.engine.run_recorder import write_down
from tuner.engine.scheduling import Policy
from tuner.errors import TuningError
from tuner.records.model import Run, RunState
from tuner.records.runs.resuming import values_of
from tuner.records.store import RecordStore
from tuner.search.registry import check_strategy
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec


@dataclass(frozen=True)
class QueuedFamily:
    """A function to tune at many sizes: a task a size, and the record that a run's options keep of it."""

    name: str
    tasks: tuple[TuningTask, ...]
    record: Mapping[str, Any]


def queue_run(
    store: RecordStore, workloads: Sequence[str], target: str, *, trials: int, strategy: str = RunOptions.strategy,
    seed: int = 0, key: str = "", user: str = "", families: Sequence[QueuedFamily] = (), flags: Sequence[str] = (),
) -> Run:  # fmt: skip
    """Record a run of these workloads (operators and sizes; files are not read) that has not begun.

    `key` is the devices' and goes into the command that repeats the run, as do the `flags` of its `families`. Raises
    TuningError, TargetError.
    """
    if not workloads and not families:
        raise TuningError("a run needs workloads")
    check_strategy(strategy)
    specs = [WorkloadSpec.parse(text) for text in workloads]
    resolved = str(Target(target))
    tasks = [TuningTask.from_spec(spec, resolved) for spec in specs]
    records = (*(spec.to_json() for spec in specs), *(family.record for family in families))
    scheduler = str(Policy.ROUND_ROBIN) if families else RunOptions.scheduler  # sizes of one function get on together
    options = RunOptions(
        trials=trials, strategy=strategy, seed=seed, target=resolved, workloads=records, scheduler=scheduler
    )
    names = [*(task.name for task in tasks), *(family.name for family in families)]
    tasks += [task for family in families for task in family.tasks]
    words = ["tunefarm", "tune", *names, *flags, "--trials", str(trials), "--target", resolved]
    words += ["--strategy", strategy, "--seed", str(seed), *(["--key", key] if key else [])]
    return write_down(store, tasks, options, shlex.join(words), user=user, state=RunState.QUEUED)


def key_of(run: Run) -> str:
    """The key of the devices that a run was started with, as its command says; "" when it says none."""
    return next(iter(values_of(run.command, "key")), "")
