"""The base of tuners. A tuner offers configs and learns their costs, and `tune` runs it on the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_methods import opened_parts
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.own_measuring import measures_itself, tune_in_rounds
from tuner.faces.autotvm.space import ConfigEntity
from tuner.faces.autotvm.task import Task
from tuner.records.store import RecordStore

Callback = Callable[["Tuner", Sequence[MeasureInput], Sequence[MeasureResult]], None]


class Tuner(ABC):
    """Base of the tuners. A subclass implements `next_batch`, `has_next` and `update`.

    There are no rounds: `next_batch` is asked for more while earlier configs are still being measured, and `update`
    is told of results as they arrive.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.n_trial = 0
        self.early_stopping: int | None = None
        self.ttl: int | None = None
        """How many more trials may bring nothing better; None without `early_stopping`."""
        self.reset()

    def reset(self) -> None:
        """Forget the best config so far."""
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0

    # -- what subclasses do

    @abstractmethod
    def has_next(self) -> bool:
        """Whether there are configs that were not offered yet."""

    @abstractmethod
    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Up to `batch_size` configs, none that was offered before."""

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:  # noqa: B027 (optional)
        """Learn what configs cost. Called with each result once."""

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learn from records made before. Raises NotImplementedError by a tuner that cannot."""
        raise NotImplementedError(f"{type(self).__name__} does not learn from records")

    def set_error_threshold(self, threshold: int) -> None:
        """Keep how many errors in a row are worth a warning; ignored; accepted for compatibility with TVM."""
        self.error_ct_threshold = threshold

    # -- the run

    def tune(
        self, n_trial: int, measure_option: Mapping[str, Any], early_stopping: int | None = None,
        callbacks: Sequence[Callback] = (), si_prefix: str = "G", *, store: RecordStore | str | Path | None = None,
    ) -> None:  # fmt: skip
        """Measure up to `n_trial` configs, each built in a worker process and run on the runner's devices.

        `measure_option` comes from `autotvm.measure_option`. The run ends when `early_stopping` trials in a row found
        nothing better. `callbacks` are called as `callback(tuner, inputs, results)` with each result as it arrives.
        `si_prefix` is the unit of speeds in progress (`G`: 10⁹ operations a second). Trials are recorded in `store`
        too where one is given (a path, an address or an open store).

        Raises ConfigError for options that make no sense, TuningError when the task cannot be tuned (its untuned
        function fails, or the first trials all fail in one way), NoDevicesError.
        """
        from tuner.faces.autotvm.engine_face import tune_on_engine  # the engine is only loaded when it is wanted

        check_si_prefix(si_prefix)
        self.n_trial, self.early_stopping = n_trial, early_stopping
        builder, runner = opened_parts(measure_option)
        if measures_itself(builder, runner):
            if store is not None:
                raise ConfigError("trials of a builder or runner of your own are not recorded in a store")
            tune_in_rounds(self, n_trial, builder, runner, early_stopping or 0, callbacks)
            return
        tune_on_engine(self, n_trial, builder, runner, early_stopping or 0, callbacks, store)

    def note(self, count: int, inp: MeasureInput, result: MeasureResult) -> None:
        """Keep the fastest; `count` is the trial's number, from 1."""
        speed = self.task.flop / result.cost if result.error_no == 0 else 0.0
        if speed > self.best_flops:
            self.best_flops, self.best_config, self.best_iter = speed, inp.config, count
            self.best_measure_pair = inp, result
        self.ttl = self.best_iter + self.early_stopping - count if self.early_stopping else None


SI_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def check_si_prefix(prefix: str) -> float:
    """Return what speeds are divided by. Raises ConfigError for an unknown prefix."""
    if prefix not in SI_PREFIXES:
        raise ConfigError(f"no SI prefix is called {prefix!r}", hint=f"known: {', '.join(filter(None, SI_PREFIXES))}")
    return SI_PREFIXES[prefix]
