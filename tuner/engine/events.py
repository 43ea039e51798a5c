"""Events and commands of the tuning engine's state machine."""

from __future__ import annotations

from dataclasses import dataclass

from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tuner.build.process_builder import CandidateBuild
from tuner.records.model import TrialPurpose
from tuner.search.base import Proposal


@dataclass(frozen=True)
class Job:
    """One build and measurement of one candidate (None: the untuned function)."""

    id: int
    task: int
    purpose: TrialPurpose
    candidate: Proposal | None


# --------------------------------------------------------------------------------- events


@dataclass(frozen=True)
class Claimed:
    """No other run has the candidate or its result: it is ours to measure."""

    job: Job


@dataclass(frozen=True)
class Known:
    """The store has the candidate's result, from another run: seconds a call, or how it failed."""

    job: Job
    cost: float | None
    failure: FailureKind | None


@dataclass(frozen=True)
class Taken:
    """Another run is measuring the candidate."""

    job: Job


@dataclass(frozen=True)
class Built:
    job: Job
    result: CandidateBuild


@dataclass(frozen=True)
class JobMeasured:
    job: Job
    slot: int
    result: MeasureResult


@dataclass(frozen=True)
class SlotUp:
    """A device is leased and waits for work.
    `cores`: how many it shares with the builders, 0 where it shares none."""

    slot: int
    cores: int = 0


@dataclass(frozen=True)
class SlotDown:
    """A device is gone; the job it held, if any, was not measured."""

    slot: int
    reason: str


@dataclass(frozen=True)
class Incumbent:
    """The store's best config for a task on this class of device."""

    task: int
    candidate: Proposal


@dataclass(frozen=True)
class EngineTick:
    """Seconds of this session of the run, and seconds that its devices were held in all sessions.
    The latter are of all devices together."""

    elapsed_s: float
    device_s: float = 0.0


@dataclass(frozen=True)
class Stop:
    """End the run without waiting for what is in flight: the user asked for it."""

    reason: str


Event = Claimed | Known | Taken | Built | JobMeasured | SlotUp | SlotDown | Incumbent | EngineTick | Stop

# ------------------------------------------------------------------------------- commands


@dataclass(frozen=True)
class Claim:
    """Ask the store whether the candidate is anyone's; answered by Claimed, Known or Taken."""

    job: Job


@dataclass(frozen=True)
class LeaveSlot:
    """The claimed candidate will not be measured after all."""

    job: Job


@dataclass(frozen=True)
class SubmitBuild:
    job: Job


@dataclass(frozen=True)
class SubmitMeasure:
    """Measure `artifact` on `slot`, outputs compared with `reference`.
    A candidate clearly slower than `best` (seconds a call) need not be timed further."""

    job: Job
    slot: int
    artifact: bytes
    reference: bytes
    best: float | None = None


@dataclass(frozen=True)
class RecordTrial:
    """A trial is over: `measured` is None when it failed before a device saw it."""

    job: Job
    slot: int | None
    build: CandidateBuild
    measured: MeasureResult | None
    failure: FailureKind | None
    text: str


@dataclass(frozen=True)
class TaskEnded:
    """A task used its budget or its space, or gave up (`error`)."""

    task: int
    error: str | None


@dataclass(frozen=True)
class RunEnded:
    reason: str


Command = Claim | LeaveSlot | SubmitBuild | SubmitMeasure | RecordTrial | TaskEnded | RunEnded
