"""Inputs and results of measurements."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from tuner.faces.auto_scheduler.state import State

if TYPE_CHECKING:
    from tuner.faces.auto_scheduler.search_task import SearchTask


class MeasureInput(NamedTuple):
    """A state of a task, to be measured."""

    task: SearchTask
    state: State


class BuildResult(NamedTuple):
    """The file of an artifact, or why there is none: `error_no` is not 0 then. `time_cost` is in seconds."""

    filename: str | None
    args: tuple[object, ...]
    error_no: int
    error_msg: str
    time_cost: float


class MeasureResult(NamedTuple):
    """`costs`: seconds per call, one a repeat, none when `error_no` is not 0 and `error_msg` says why.
    `all_cost`: seconds that building and measuring took; `timestamp`: when it was done, in seconds since 1970."""

    costs: tuple[float, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float

    @property
    def cost(self) -> float:
        """Return the median of the seconds per call; infinity for a failed trial.
        One disturbed repeat does not move it."""
        return statistics.median(self.costs) if self.costs and self.error_no == 0 else float("inf")
