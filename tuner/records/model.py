"""Records that go into the store and come out: frozen data, no database in it.

Times are seconds, points in time aware datetimes in UTC, `flops` operations per call of the function.
`New…` types are what callers give; the others carry the row's `id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from compiler.runtime.measure.statistics import Interval
from rpc_server.wire.trial_messages import FailureKind
from tuner.goals import Goal
from tuner.records.lookup.best import Verdict


class RunState(StrEnum):
    """How a run stands.
    QUEUED has not begun; INTERRUPTED may be resumed, and OUT_OF_QUOTA once its user may take more; FAILED ended with
    an error (in `Run.message`)."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    OUT_OF_QUOTA = "out_of_quota"

    @property
    def ended(self) -> bool:
        return self not in (RunState.QUEUED, RunState.RUNNING)

    @property
    def words(self) -> str:
        """The state as it is said: "out of quota"."""
        return self.value.replace("_", " ")


class TrialPurpose(StrEnum):
    """Why a trial was made: the untuned function, the search, or the comparison of the best few."""

    BASELINE = "baseline"
    SEARCH = "search"
    FINAL = "final"


def disqualifies(failure: FailureKind, purpose: TrialPurpose) -> bool:
    """Whether a candidate must not be served after this failure, however fast it was before.
    A wrong result does anywhere. A crash or a timeout does in the finals, where the kernel had run well before."""
    return failure is FailureKind.WRONG_RESULT or (purpose is TrialPurpose.FINAL and failure.is_of_kernel)


class TrialStatus(StrEnum):
    OK = "ok"
    FAILED = "failed"


# ------------------------------------------------------------------------ what trials refer to


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFacts:
    """A function to tune.

    `key` is `workload_key(func)`, `spec` (plain JSON) makes it again, `function` is its script. A new column is a field
    here and a migration (`tuner.records.facts`).
    """

    key: str
    name: str
    spec: Mapping[str, Any] | None = None
    function: str = ""
    flops: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkload(WorkloadFacts):
    """A workload to record. One that is known already gets the facts that it lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(WorkloadFacts):
    id: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """`text` is canonical; `features` are the CPU features code for it may use."""

    id: int
    text: str
    kind: str
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """The facts in a device's row. A new column is a field here and a migration (`tuner.records.facts`).

    `fingerprint` is all that is known of the hardware and its system.
    """

    name: str
    key: str
    fingerprint: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDevice(DeviceFacts):
    """`device_class` names devices with comparable times; `features` are their CPU features."""

    device_class: str
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord(DeviceFacts):
    id: int
    device_class: str
    features: tuple[str, ...]
    first_seen: datetime
    last_seen: datetime


# --------------------------------------------------------------------------------------- runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTaskFacts:
    """The facts in the row of a run's task. A new column is a field here and a migration (`tuner.records.facts`).

    `budget` is how many search trials the task may use. `baseline` names what it is compared with; "" for the function
    as written.
    """

    budget: int
    baseline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRunTask(RunTaskFacts):
    """A task of a run to begin."""

    workload_id: int
    target_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFacts:
    """Facts that runs and benchmark runs share: who did it, where and how.

    `options` is what it takes to go on with it, `command` what a person types to repeat it. `toolchain` maps names to
    versions (`{"tunefarm": "0.1.0", "llvm": "22.1.0"}`). Runs and runs of benchmarks have these facts: a new column is
    a field here and a migration (`tuner.records.facts`).
    """

    toolchain: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    host: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts(CommandFacts):
    """The facts in a run's row. A new column is a field here and a migration (`tuner.records.facts`)."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun(RunFacts):
    """A run to begin; `started_at` is for runs brought in later."""

    tasks: tuple[NewRunTask, ...]
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask(RunTaskFacts):
    """`trials` search trials are done, `failed` of them failed. Costs are seconds per call: of the untuned
    function, and of the fastest verified search trial so far. A `baseline` that has a name was measured in place of the
    untuned function."""

    id: int
    position: int
    workload: Workload
    target: str
    trials: int
    failed: int
    baseline_cost: float | None
    best_cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """The use of devices by a run: seconds that they were held, and those in which they measured.
    They are of all devices together. Both are 0 for a run from somebody else's file of records, which takes nothing
    of anybody's quota."""

    held_s: float = 0.0
    busy_s: float = 0.0

    def __add__(self, other: RunUse) -> RunUse:
        return RunUse(held_s=self.held_s + other.held_s, busy_s=self.busy_s + other.busy_s)

    @property
    def utilisation(self) -> float | None:
        """Time measuring over time held; None where nothing was held."""
        return min(1.0, self.busy_s / self.held_s) if self.held_s > 0 else None


IMPORTED = "imported"
"""The only option of a run that came from a file: under it lie those it had, which nothing here obeys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(RunFacts):
    """`trials` and `failed` count search trials of all tasks.
    `updated_at` is when a trial or a change of state last arrived."""

    id: int
    state: RunState
    message: str
    started_at: datetime
    finished_at: datetime | None
    updated_at: datetime
    trials: int
    failed: int
    tasks: tuple[RunTask, ...]
    use: RunUse = RunUse()

    @property
    def budget(self) -> int:
        return sum(task.budget for task in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """How often a task's trials failed in one way; `first_text` is the first such failure's text."""

    task_id: int
    kind: FailureKind
    count: int
    first_trial_id: int
    first_text: str


# ------------------------------------------------------------------------------------- trials


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts:
    """The facts in a trial's row. A new column is a field here and a migration (`tuner.records.facts`).

    `samples` are seconds per call, one per repeat; `noise` names what was odd about the measurement ("load", "spread",
    …). `verified`: the output agreed with the reference. `measured_by` is the lease token the result came under.
    """

    samples: tuple[float, ...] = ()
    verified: bool = False
    failure_text: str = ""
    noise: tuple[str, ...] = ()
    build_s: float | None = None
    measure_s: float | None = None
    environment: Mapping[str, float] = field(default_factory=dict)
    measured_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrial(TrialFacts):
    """One trial of a task of a run.

    Either `failure` is None and `samples` are given, or `failure` and its `failure_text` are. `trace` (JSON text) and
    its `digest` are both given, or neither, for the untuned function. `device_id` is None when no device saw the trial
    (a failed build). Only verified trials can become best.
    """

    task_id: int
    digest: str | None = None
    trace: str | None = None
    device_id: int | None = None
    purpose: TrialPurpose = TrialPurpose.SEARCH
    failure: FailureKind | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(TrialFacts):
    """A stored trial.
    `sequence` counts from 1 within the run, in the order of arrival. `cost` is the median of `samples`, `mad` their
    median absolute deviation; both None for a failed trial. `suspect`: its device failed its next health check."""

    id: int
    run_id: int
    sequence: int
    task_id: int
    workload_key: str
    target: str
    device_id: int | None
    device: str | None
    device_class: str | None
    purpose: TrialPurpose
    status: TrialStatus
    failure: FailureKind | None
    digest: str | None
    trace: str | None
    cost: float | None
    mad: float | None
    improved: bool
    started_at: datetime
    finished_at: datetime
    suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The best cost so far from trial `sequence` on, `elapsed_s` after the run began."""

    sequence: int
    elapsed_s: float
    cost: float
    trial_id: int


@dataclass(frozen=True, slots=True)
class Improvement:
    """From trial `sequence` of a run on, the task at `position` takes `cost` seconds a call."""

    sequence: int
    position: int
    cost: float


# --------------------------------------------------------------------------------------- best


@dataclass(frozen=True, slots=True, kw_only=True)
class BestConfig:
    """The incumbent for a workload, target, device class and toolchain.

    `samples` are all that were measured of this candidate there; `cost` is their median and `low` to `high` the
    95 % interval of that median. `trial_id`, `run_id` and `device` tell where it was first measured;
    `since` when it became best. `untuned` is the `baseline_cost` of the run's task, where the run began with the
    function as written on a device of the same class. If the run began with a library of the user's, `baseline` is the
    library's name, and `untuned` its time.

    One that was chosen by energy has `joules`, the median of a call, with its 95 % interval; `untuned_joules` are those
    of the function as written. The times are those of the same candidate.
    """

    id: int
    workload_key: str
    workload_name: str
    flops: float | None
    target: str
    device_class: str
    toolchain: str
    digest: str
    trace: str
    cost: float
    low: float
    high: float
    samples: tuple[float, ...]
    trial_id: int
    run_id: int
    device: str
    since: datetime
    updated_at: datetime
    untuned: float | None
    baseline: str = ""
    joules: float | None = None
    joules_low: float | None = None
    joules_high: float | None = None
    untuned_joules: float | None = None

    @property
    def sample_count(self) -> int:
        return len(self.samples)

    @property
    def goal(self) -> Goal:
        """The goal that it was chosen by."""
        return Goal.TIME if self.joules is None else Goal.ENERGY

    @property
    def bounds(self) -> Interval:
        """The median that it was chosen by and its 95 % interval, in seconds or joules."""
        if self.joules is None or self.joules_low is None or self.joules_high is None:
            return Interval(self.low, self.cost, self.high)
        return Interval(self.joules_low, self.joules, self.joules_high)

    @property
    def untuned_cost(self) -> float | None:
        """The cost of the function as written, in what it was chosen by."""
        return self.untuned if self.goal is Goal.TIME else self.untuned_joules

    @property
    def worse_than_untuned(self) -> bool:
        """Whether the function as written, or the baseline, is below all of the interval.

        Joules count, not seconds, where it was chosen by them.
        """
        return self.untuned_cost is not None and self.untuned_cost < self.bounds.low

    @property
    def as_written(self) -> bool:
        """Whether it is better built without a config. No build makes a library that is faster."""
        return self.worse_than_untuned and not self.baseline


Match = Literal["exact", "compatible", "nearest", "miss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BestLookup:
    """The answer to "what is best here?". `config` is None exactly for a miss; `explain` says, a sentence
    each, what matched, what did not, and what else there is. For a `nearest` workload, `config` is that workload's,
    and `adapted` the trace (JSON text) made of it for the one asked for, which nobody has measured."""

    match: Match
    config: BestConfig | None
    explain: tuple[str, ...]
    adapted: str | None = None

    @property
    def trace(self) -> str | None:
        """The trace to replay on the workload asked for."""
        return self.adapted or (None if self.config is None else self.config.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """A candidate that is not the best, compared with the best.
    `tie` when the 95 % intervals of the medians overlap. `joules` is the median of a call if that is what counts."""

    digest: str
    cost: float
    low: float
    high: float
    sample_count: int
    verdict: Verdict
    joules: float | None = None
