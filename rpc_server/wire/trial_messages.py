"""The request for one trial, and its result. The tuner, the records and the wire all use these types."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from rpc_server.wire.bounds import (
    Finite,
    Index,
    Int64,
    Label,
    NotNegative,
    Path,
    Positions,
    Prose,
    Seconds,
    Tries,
    WholeMilliseconds,
)


class FailureKind(StrEnum):
    """Why a trial has no time. Closed: a new way to fail is a change of format."""

    INSTANTIATE = "instantiate"  # the trace does not apply to the workload
    BUILD = "build"
    BUILD_TIMEOUT = "build_timeout"
    UPLOAD = "upload"  # the artifact did not reach the box, or the box refused it
    LAUNCH = "launch"  # loaded, but could not be called: wrong arguments, missing entry, non-zero return
    RUN_TIMEOUT = "run_timeout"
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    WRONG_RESULT = "wrong_result"
    DEVICE_LOST = "device_lost"  # the box or the connection to it is gone

    @property
    def is_of_kernel(self) -> bool:
        """Whether the kernel failed as it ran, not its build, the way to the box, or the box."""
        return self in (
            FailureKind.LAUNCH, FailureKind.RUN_TIMEOUT, FailureKind.CRASH, FailureKind.OUT_OF_MEMORY,
            FailureKind.WRONG_RESULT,
        )  # fmt: skip


class EvaluatorOptions(msgspec.Struct, frozen=True):
    """How a kernel is timed: `repeat` samples, each the mean of `number` calls after one call for warm-up.

    With `min_repeat_ms` a sample continues, with more calls, until it lasts that long; later samples make as many
    calls. A kernel whose first, checked call took that long is warm already. If one sample of one call is asked for,
    and the first call took ten times that long, it is the sample. With `flush_cache` the caches are emptied before
    every sample, and `min_repeat_ms` does not count. After sample i, when i is a multiple of `repeats_to_cooldown`,
    the box sleeps `cooldown_interval_ms`. A kernel too slow for all that before the trial's deadline is timed with
    fewer calls and samples.

    With `max_repeat` above `repeat`, more samples follow, up to so many, while the 95 % interval of their median
    reaches further than `precision` (relative) from it. With `slower_than` (seconds per call, 0: none), timing stops
    once the kernel is clearly slower than that.
    """

    number: Tries = 4
    repeat: Tries = 3
    min_repeat_ms: WholeMilliseconds = 0
    cooldown_interval_ms: WholeMilliseconds = 0
    flush_cache: bool = False
    repeats_to_cooldown: Tries = 1
    limit_zero_time_iterations: Tries = 100
    max_repeat: Tries = 0
    precision: NotNegative = 0.0
    slower_than: NotNegative = 0.0

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1 or self.repeats_to_cooldown < 1:
            raise ValueError("number, repeat and repeats_to_cooldown are at least 1")
        if self.min_repeat_ms < 0 or self.cooldown_interval_ms < 0 or self.limit_zero_time_iterations < 0:
            raise ValueError("times and limits are not negative")
        if self.max_repeat < 0 or not self.precision >= 0 or not self.slower_than >= 0:
            raise ValueError("max_repeat, precision and slower_than are not negative")


class MeasureRequest(msgspec.Struct, frozen=True):
    """One trial. Digests name artifacts; the box asks for those it does not have.

    For `RPCSession.measure` they are `Artifact.digest` values, on the wire sha256 of the artifact's bytes.

    Arguments are filled on the box from `seed`. When `reference` names another artifact with the same
    argument list, its outputs for the same seed decide whether the candidate's are right: elementwise
    `|got - want| <= atol + rtol * max(|want|, rms of want)` for floats, equality for integers.
    `timeout_s` covers loading, the check and the timing of the candidate; `reference_timeout_s` the
    reference's one run. Arguments at the positions `cold` are timed out of the caches: they are the weights of a
    model, which reads others between two calls of this kernel.
    """

    artifact: Label
    entry: Path = ""  # "": the artifact's only (or first) entry point
    seed: Int64 = 0
    options: EvaluatorOptions = EvaluatorOptions()
    timeout_s: Seconds = 10.0
    reference: Label | None = None
    reference_timeout_s: Seconds = 60.0
    rtol: NotNegative = 1e-4
    atol: NotNegative = 1e-6
    device_type: Label = "cpu"
    device_id: Index = 0
    cold: Positions = ()


class MeasureResult(msgspec.Struct, frozen=True):
    """The result of a trial.
    `costs`: seconds per call, one per repeat; empty when `failure` says why there are none.

    `elapsed_s` is the wall time the trial took on the box. `environment` has numbers that may explain an odd time
    (load average, context switches, …).
    """

    costs: Annotated[tuple[Seconds, ...], Meta(max_length=1 << 20)] = ()
    failure: FailureKind | None = None
    text: Prose = ""
    elapsed_s: Seconds = 0.0
    environment: Annotated[Mapping[Label, Finite], Meta(max_length=256)] = msgspec.field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def mean(self) -> float:
        """Mean seconds per call; infinity for a failed trial."""
        return sum(self.costs) / len(self.costs) if self.costs else float("inf")
