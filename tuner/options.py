"""What a tuning run was asked to do: plain data that goes into the store, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rpc_server.measure import EvaluatorOptions
from tuner.errors import TuningError
from tuner.records.model import TrialPurpose


@dataclass(frozen=True)
class RunOptions:
    """`trials` a task. Times in seconds; `samples` evaluator repeats, each at least `sample_ms` long.

    `rtol`, `atol`: how far a candidate's output may be from the reference's (see `MeasureRequest`).
    `device_wait_s`: how long a run without any device waits for one before it is interrupted.
    """

    trials: int = 64
    strategy: str = "evolutionary"
    seed: int = 0
    builders: int = 2
    build_timeout_s: float = 15.0
    run_timeout_s: float = 10.0
    samples: int = 3
    sample_ms: int = 20
    final_samples: int = 7
    finalists: int = 3
    final_rounds: int = 2
    equal_failures: int = 12
    device_wait_s: float = 30.0
    rtol: float = 1e-4
    atol: float = 1e-6
    target: str = ""
    workloads: tuple[Mapping[str, Any], ...] = field(default=())

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise TuningError(f"trials must be at least 1, got {self.trials}")
        if self.builders < 1 or self.samples < 1:
            raise TuningError("builders and samples must be at least 1")

    def evaluator(self, purpose: TrialPurpose) -> EvaluatorOptions:
        """How one trial is timed: the finals take more samples, the slow untuned function one."""
        repeat = {TrialPurpose.BASELINE: 1, TrialPurpose.SEARCH: self.samples, TrialPurpose.FINAL: self.final_samples}
        return EvaluatorOptions(number=1, repeat=repeat[purpose], min_repeat_ms=self.sample_ms)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "workloads": [dict(w) for w in self.workloads]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RunOptions:
        """The inverse of `to_json`; options this version does not know are refused by name."""
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
