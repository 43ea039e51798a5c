"""How much to tune, how to measure, and whom to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.measure_callback import PythonBasedMeasureCallback
from tuner.faces.auto_scheduler.measure_methods import LocalBuilder, LocalRunner
from tuner.faces.common.engine import FaceBuilder, FaceRunner


class TuningOptions:
    """Options of tuning: how many states are measured, by what, and who is told.

    `num_measure_trials` states are measured (with several tasks, over all of them), or until `early_stopping` in a row
    brought nothing better. `builder` and `runner` are "local" or made by the classes of their names.
    `measure_callbacks` are told of each result as it arrives. `verbose` 0 prints nothing. There are no rounds:
    `num_measures_per_round` is ignored; it is accepted for compatibility with TVM. Raises SchedulerError for values
    that make no sense.
    """

    def __init__(
        self, num_measure_trials: int = 0, early_stopping: int | None = None, num_measures_per_round: int = 64,
        verbose: int = 1, builder: FaceBuilder | str = "local", runner: FaceRunner | str = "local",
        measure_callbacks: Sequence[PythonBasedMeasureCallback] | None = None,
    ) -> None:  # fmt: skip
        if num_measure_trials < 0 or num_measures_per_round < 1 or (early_stopping or 1) < 1:
            raise SchedulerError("trials are not negative, early_stopping and num_measures_per_round at least 1")
        self.num_measure_trials = num_measure_trials
        self.early_stopping = early_stopping
        self.num_measures_per_round = num_measures_per_round
        self.verbose = verbose
        chosen: Any = LocalBuilder() if builder == "local" else builder
        if not isinstance(chosen, FaceBuilder):
            raise SchedulerError(f"not a builder: {builder!r}", hint='pass "local" or auto_scheduler.LocalBuilder(…)')
        self.builder: FaceBuilder = chosen
        chosen = LocalRunner() if runner == "local" else runner
        if not isinstance(chosen, FaceRunner):
            raise SchedulerError(
                f"not a runner: {runner!r}", hint='pass "local", auto_scheduler.LocalRunner(…) or RPCRunner(…)'
            )
        self.runner: FaceRunner = chosen
        self.measure_callbacks = list(measure_callbacks or ())
        for callback in self.measure_callbacks:
            if not callable(getattr(callback, "callback", None)):
                raise SchedulerError(f"not a measure callback: {callback!r}", hint="it has a method callback")
