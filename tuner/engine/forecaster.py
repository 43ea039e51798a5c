"""A forecast of a model's gain in the next minute of tuning, from how its time fell so far. Pure.

A search gains about as much with each doubling of its trials, and a little less each time. So the forecast is the
last doubling's gain, times the share of a doubling that the next minute is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.records.model import Improvement

MINUTE_S = 60.0
FADING = 0.7
"""What each doubling of the trials saves, as a part of what the one before it saved."""
_FEWEST = 8
_LEAST_DOUBLINGS = 0.4


@dataclass(frozen=True)
class WeightedKernel:
    """A kernel as a forecast sees it.
    The `model` calls it `calls` times; `seconds` is the present time of a call."""

    model: str
    calls: float
    cost: float | None


@dataclass
class ModelCurve:
    """How the time of a model's kernels fell.
    It has seconds of a run, each with the tuning run's trials so far, in order."""

    trials: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def note(self, trials: int, seconds: float) -> None:
        """The time by now; kept where it is another one."""
        if not self.seconds or seconds != self.seconds[-1]:
            self.trials.append(trials)
            self.seconds.append(seconds)

    def at(self, trials: float) -> float:
        """The time after so many trials; before the first known one, that one."""
        return self.seconds[max(0, bisect_right(self.trials, trials) - 1)]

    def should_save(self, done: int, more: float) -> float | None:
        """The seconds of a run that so many `more` trials should save, after `done`.
        None while too little is known."""
        if not self.seconds or done < _FEWEST or more < 0:
            return None
        first = max(done / 2, self.trials[0], 1)
        doublings = math.log2(done / first)
        if doublings < _LEAST_DOUBLINGS:
            return None
        saved = max(0.0, self.at(first) - self.seconds[-1])
        return min(self.seconds[-1], FADING * saved / doublings * math.log2((done + more) / done))


class Forecaster:
    """It is told of every change, and forecasts the gain of a minute more for each model's run."""

    def __init__(self) -> None:
        self._models: dict[str, ModelCurve] = {}

    def note(self, trials: int, tasks: Iterable[WeightedKernel]) -> None:
        """Note the kernels' times after so many trials of the run.
        A model counts from when all of its kernels are known."""
        for name, seconds in model_seconds(tasks).items():
            if seconds is not None:
                self._models.setdefault(name, ModelCurve()).note(trials, seconds)

    def minute(self, done: int, rate: float, left_s: float | None) -> Mapping[str, float | None]:
        """Return the seconds of a run that the next minute should save, by model.
        It counts `rate` trials a second, or what is left of the run where that is less."""
        more = rate * _next_s(left_s)
        return {name: curve.should_save(done, more) for name, curve in self._models.items()}


def model_seconds(tasks: Iterable[WeightedKernel]) -> dict[str, float | None]:
    """The seconds of a run that each model's kernels take, None until all of them are known."""
    found: dict[str, float | None] = {}
    for task in tasks:
        if task.model:
            whole = found.get(task.model, 0.0)
            found[task.model] = None if whole is None or task.cost is None else whole + task.calls * task.cost
    return found


def replayed(
    tasks: Sequence[WeightedKernel], improvements: Iterable[Improvement], done: int, rate: float, left_s: float | None
) -> Mapping[str, float | None]:
    """The same forecast from a run's records: `tasks` untuned, and what improved on them, in order."""
    costs = [task.cost for task in tasks]
    models = {name: ModelCurve() for name, seconds in model_seconds(tasks).items() if seconds is not None}
    whole = {name: seconds for name, seconds in model_seconds(tasks).items() if seconds is not None}
    for name, curve in models.items():
        curve.note(0, whole[name])
    for step in improvements:
        task, known = tasks[step.position], costs[step.position]
        if known is None or step.cost >= known or task.model not in models:
            continue
        costs[step.position] = step.cost
        whole[task.model] -= task.calls * (known - step.cost)
        models[task.model].note(step.sequence, whole[task.model])
    more = rate * _next_s(left_s)
    return {name: curve.should_save(done, more) for name, curve in models.items()}


def _next_s(left_s: float | None) -> float:
    return MINUTE_S if left_s is None else min(MINUTE_S, left_s)
