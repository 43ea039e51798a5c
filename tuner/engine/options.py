"""Options of a tuning run: plain data that goes into the store, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, assert_never

from rpc_server.wire.trial_messages import EvaluatorOptions
from tuner.build.choose import check_builders
from tuner.engine.budget import BudgetLimits
from tuner.engine.scheduling import GradientOptions, Policy
from tuner.errors import TuningError
from tuner.goals import Goal
from tuner.records.model import IMPORTED, TrialPurpose

_CLEARLY_SLOWER = 1.1  # times the best cost: nobody's finalist


@dataclass(frozen=True)
class RunOptions:
    """Budgets of a run, 0 for none, and how it divides them.

    `trials` and `task_seconds` (its share of the wall time) are for a task, `total_trials` and `seconds` (of wall time)
    for the run. A task whose last `early_stopping` trials were no gain is done. `scheduler` says which task gets the
    next trial (`tuner.engine.scheduling`, which explains `alpha`, `beta`, `gamma` and `window`). With `warm_start`, a
    task begins with the adapted traces of the nearest workloads in the store.

    A trial takes `samples` of at least `sample_ms` each, and up to `max_samples` while the 95 % interval of their
    median is wider than `precision` of it to either side. With `reject`, a candidate that is clearly slower than the
    task's best is not timed further. Kernels of several threads share their cores with the builders on this machine:
    from the share `quiet_from` of the budget on nothing is built while something is measured. `builders`: a number of
    processes or dask://HOST:PORT. `rtol`, `atol`: how far a candidate's output may be from the reference's (see
    `MeasureRequest`). It may be further where sums are so long that their order alone makes more of a difference
    (`tuner.rounding`). `device_wait_s`: how long a run without any device waits for one before it is interrupted; while
    it stands in a tracker's queue for devices that others use, it waits on. `objective` is what it makes small: the
    time or the energy of a call.
    """

    trials: int = 64
    total_trials: int = 0
    seconds: float = 0.0
    task_seconds: float = 0.0
    device_hours: float = 0.0
    early_stopping: int = 0
    strategy: str = "evolutionary"
    warm_start: bool = True
    scheduler: str = Policy.GRADIENT.value
    alpha: float = GradientOptions.alpha
    beta: float = GradientOptions.beta
    gamma: float = GradientOptions.gamma
    window: int = GradientOptions.window
    seed: int = 0
    builders: int | str = 2
    build_timeout_s: float = 15.0
    run_timeout_s: float = 10.0
    samples: int = 3
    max_samples: int = 6
    precision: float = 0.02
    sample_ms: int = 10
    reject: bool = True
    final_samples: int = 3
    final_sample_ms: int = 10
    finalists: int = 6
    final_rounds: int = 3
    quiet_from: float = BudgetLimits.quiet_from
    equal_failures: int = 12
    device_wait_s: float = 30.0
    objective: str = Goal.TIME.value
    rtol: float = 1e-4
    atol: float = 1e-6
    target: str = ""
    workloads: tuple[Mapping[str, Any], ...] = field(default=())

    def __post_init__(self) -> None:
        negative = [f.name for f in fields(self) if isinstance(v := getattr(self, f.name), int | float) and v < 0]
        if negative:
            raise TuningError(f"{negative[0]} must not be negative, got {getattr(self, negative[0])}")
        if not (self.trials or self.total_trials or self.seconds or self.task_seconds or self.device_hours):
            raise TuningError(
                "a run needs a limit", hint="give trials, total_trials, seconds, task_seconds or device_hours"
            )
        if self.samples < 1:
            raise TuningError("samples must be at least 1")
        if self.scheduler not in set(Policy):
            raise TuningError(f"no task scheduler {self.scheduler!r}", hint=f"there are {', '.join(Policy)}")
        if self.objective not in set(Goal):
            raise TuningError(f"no objective {self.objective!r}", hint=f"there are {', '.join(Goal)}")
        check_builders(self.builders)
        try:
            self._gradient()
        except ValueError as error:
            raise TuningError(str(error)) from None

    def limits(self, builders: int) -> BudgetLimits:
        """The budgets as the engine's state machine takes them, for so many builds at once."""
        return BudgetLimits(
            trials=self.trials, total_trials=self.total_trials, seconds=self.seconds, task_seconds=self.task_seconds,
            device_seconds=3600 * self.device_hours, early_stopping=self.early_stopping, builders=builders,
            finalists=self.finalists, final_rounds=self.final_rounds, quiet_from=self.quiet_from,
            equal_failures=self.equal_failures, policy=Policy(self.scheduler), gradient=self._gradient(),
            goal=self.goal,
        )  # fmt: skip

    @property
    def goal(self) -> Goal:
        """The quantity that the run minimises."""
        return Goal(self.objective)

    def _gradient(self) -> GradientOptions:
        return GradientOptions(alpha=self.alpha, beta=self.beta, gamma=self.gamma, window=self.window)

    def evaluator(self, purpose: TrialPurpose, best: float | None = None) -> EvaluatorOptions:
        """How one trial is timed: the finals take more samples, the slow untuned function one.
        `best` is the cost (seconds a call) that a search candidate should come near."""
        match purpose:
            case TrialPurpose.BASELINE:
                repeat = 1 if self.goal is Goal.TIME else 2  # counters are not read around a first call
                return EvaluatorOptions(number=1, repeat=repeat, min_repeat_ms=self.sample_ms)
            case TrialPurpose.FINAL:
                return EvaluatorOptions(number=1, repeat=self.final_samples, min_repeat_ms=self.final_sample_ms)
            case TrialPurpose.SEARCH:
                return EvaluatorOptions(
                    number=1,
                    repeat=self.samples,
                    min_repeat_ms=self.sample_ms,
                    max_repeat=max(self.samples, self.max_samples),
                    precision=self.precision,
                    slower_than=_CLEARLY_SLOWER * best if best is not None and self.reject else 0.0,
                )
            case _:
                assert_never(purpose)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "workloads": [dict(w) for w in self.workloads]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RunOptions:
        """The inverse of `to_json`; options this version does not know are refused by name."""
        if IMPORTED in data:
            raise TuningError(
                "the run came from a file of records: it is not resumed here",
                hint="begin one for its workloads; its best configs count as if they had been found here",
            )
        known = {f.name for f in fields(RunOptions)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise TuningError(
                f"the run has options this version does not know: {', '.join(unknown)}",
                hint="resume it with the tunefarm version that started it",
            )
        values = dict(data)
        values["workloads"] = tuple(data.get("workloads", ()))
        return RunOptions(**values)
