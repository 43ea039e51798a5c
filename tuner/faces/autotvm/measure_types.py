"""Inputs and results of measurements, for records and callbacks."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from compiler.target.target import Target

if TYPE_CHECKING:
    from tuner.faces.autotvm.space import ConfigEntity
    from tuner.faces.autotvm.task import Task


class MeasureInput(NamedTuple):
    """A config of a task, to be measured."""

    target: Target
    task: Task
    config: ConfigEntity


class MeasureResult(NamedTuple):
    """`costs`: seconds per call, one a repeat; of a failed trial the errors' texts.
    `all_cost`: seconds that building and measuring took; `timestamp`: when it was done, in seconds since 1970."""

    costs: tuple[float | str, ...]
    error_no: int
    all_cost: float
    timestamp: float

    @property
    def cost(self) -> float:
        """Return the median of the seconds per call; infinity for a failed trial.
        One disturbed repeat does not move it."""
        times = [c for c in self.costs if not isinstance(c, str)]
        return statistics.median(times) if times and self.error_no == 0 else float("inf")
