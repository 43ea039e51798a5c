"""Replies of the REST API's client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

R = TypeVar("R")


def reply_of(kind: type[R], data: Mapping[str, Any]) -> R:
    """The fields of a reply out of an answer; lists become tuples. What else the answer has is left out."""
    values = {field.name: data[field.name] for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


@dataclass(frozen=True)
class BestReply:
    """The answer to a best-config query.
    `match` is exact, compatible, nearest (the config of another workload, adapted and never measured) or miss.
    `trace` (JSON text) and the rest are None for a miss, `cost_s` and `digest` for nearest, too. `as_written`: the
    function itself was better than the config, and is what to build. `joules` are those of a call, where the config
    was chosen by energy."""

    match: str
    explain: tuple[str, ...]
    trace: str | None
    cost_s: float | None
    device_class: str | None
    digest: str | None
    as_written: bool = False
    joules: float | None = None

    @property
    def hit(self) -> bool:
        """Whether there is a trace to build with."""
        return self.trace is not None

    @property
    def tuned(self) -> bool:
        """Whether its config was measured for this very workload."""
        return self.match in ("exact", "compatible")


@dataclass(frozen=True)
class FamilyReply:
    """A tuned family as the store has it.
    `record` is what `tuner.families.record.FamilyRecord` reads; `digest` names what is built of it."""

    name: str
    target: str
    device_class: str
    digest: str
    record: Mapping[str, Any]


@dataclass(frozen=True)
class RunReply:
    """A tuning run. `state` is queued, running, finished, failed, interrupted or out_of_quota."""

    id: int
    name: str
    state: str
    message: str
    trials: int
    failed: int
    budget: int

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")


@dataclass(frozen=True)
class ModelReply:
    """A model. `latest` is the digest of its newest version."""

    id: int
    name: str
    owner: str
    readers: tuple[str, ...]
    versions: int
    latest: str


@dataclass(frozen=True)
class ModelVersionReply:
    """A version of a model. `digest` names it; the web app has `kept_bytes` of the file's `file_bytes`."""

    digest: str
    file_digest: str
    form: str
    sizes: Mapping[str, int]
    file_bytes: int
    kept_bytes: int
    created_by: str
    created_at: str


@dataclass(frozen=True)
class ModelTaskReply:
    """A kernel of a version, for one `kind` of target.
    A run of the model calls it `calls` times, under `names`."""

    workload_key: str
    workload_name: str
    kind: str
    names: tuple[str, ...]
    calls: int
    flops: float | None


@dataclass(frozen=True)
class GraphCallReply:
    """A call in a model's graph. `inputs` are the numbers of the calls whose results it takes."""

    name: str
    workload: str | None
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class CoveredKernelReply:
    """A kernel on a device class: what its calls take of a run, and what tuning it should still save."""

    name: str
    workload: str
    calls: int
    config: str
    seconds_s: float | None
    untuned_s: float | None
    roofline: float | None
    gain_s: float | None


@dataclass(frozen=True)
class ModelCoverageReply:
    """How well a version is tuned on a device class.
    `tuned_share` is the part of the time that is of tuned kernels."""

    version: str
    tuned: int
    seconds_s: float | None
    tuned_share: float | None
    gain_s: float | None
    kernels: tuple[CoveredKernelReply, ...]
    roofline_not_known: str | None


@dataclass(frozen=True)
class ModelTimeReply:
    """The end-to-end time of a run: the median `cost_s` of `samples_s`, with its 95 % interval."""

    id: int
    version: str
    device: str
    device_class: str
    target: str
    cost_s: float
    low_s: float
    high_s: float
    samples_s: tuple[float, ...]
    release: str
    tuned_share: float | None
    measured_at: str
    joules: float | None
    clock_mhz: float | None


@dataclass(frozen=True)
class KernelTimeReply:
    """A kernel of a profiled run: all of its calls together."""

    name: str
    calls: int
    seconds_s: float
    workload: str | None
    config: str
    roofline: float | None


@dataclass(frozen=True)
class ProfileJobReply:
    """A profile that was asked for.
    `state` is running, done or failed; once it is done, `time` is the measurement."""

    id: int
    key: str
    asked_by: str
    state: str
    message: str
    time: int | None

    @property
    def ended(self) -> bool:
        return self.state != "running"
