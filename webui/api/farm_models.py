"""What the API takes and answers with about releases, device events, leases and benchmarks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tuner.records.farm import model_farm
from tuner.records.farm.model_farm import DeviceEventKind
from webui.api.models import Reply

_TEXT = Field(default="", max_length=2000)


class Body(BaseModel):
    """Base of what a client sends: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ----------------------------------------------------------------------------------- releases


class Release(Reply):
    """`digest` signs its name and entries. Builds may use it once `approved_at` is set."""

    name: str
    note: str
    digest: str
    entries: int
    created_by: str
    created_at: datetime
    approved_by: str
    approved_at: datetime | None

    @staticmethod
    def fields_of(release: model_farm.Release) -> dict[str, Any]:
        found = {name: getattr(release, name) for name in Release.model_fields if name != "entries"}
        return {**found, "entries": release.entry_count}

    @staticmethod
    def of(release: model_farm.Release) -> Release:
        return Release(**Release.fields_of(release))


class ReleaseEntry(Reply):
    """One config of a release. `trace` is JSON text; `samples` stand behind `cost_s` and its 95 % interval."""

    workload_key: str
    workload_name: str
    target: str
    device_class: str
    toolchain: str
    digest: str
    trace: str
    cost_s: float
    low_s: float
    high_s: float
    samples: int
    device: str

    @staticmethod
    def of(entry: model_farm.ReleaseEntry) -> ReleaseEntry:
        return ReleaseEntry(
            workload_key=entry.workload_key,
            workload_name=entry.workload_name,
            target=entry.target,
            device_class=entry.device_class,
            toolchain=entry.toolchain,
            digest=entry.digest,
            trace=entry.trace,
            cost_s=entry.cost,
            low_s=entry.low,
            high_s=entry.high,
            samples=entry.sample_count,
            device=entry.device,
        )


class ReleasePage(Reply):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    releases: list[Release]
    next: int | None


class ReleaseDetail(Release):
    """A release with all its configs."""

    configs: list[ReleaseEntry]


class ReleaseChange(Reply):
    """The config of one workload, target, device class and toolchain in two releases."""

    old: ReleaseEntry
    new: ReleaseEntry


class ReleaseDiff(Reply):
    """How release `new` differs from `old`; `same` configs do not."""

    old: str
    new: str
    added: list[ReleaseEntry]
    removed: list[ReleaseEntry]
    changed: list[ReleaseChange]
    same: int

    @staticmethod
    def of(diff: model_farm.ReleaseDiff) -> ReleaseDiff:
        return ReleaseDiff(
            old=diff.old,
            new=diff.new,
            added=[ReleaseEntry.of(e) for e in diff.added],
            removed=[ReleaseEntry.of(e) for e in diff.removed],
            changed=[ReleaseChange(old=ReleaseEntry.of(a), new=ReleaseEntry.of(b)) for a, b in diff.changed],
            same=diff.same,
        )


class NewRelease(Body):
    """Freezes the best configs there are: all, or those of `workloads` (keys or names), `target` and `device_class`."""

    name: str = Field(min_length=1, max_length=100)
    note: str = _TEXT
    workloads: list[str] = Field(default=[], max_length=10_000)
    target: str | None = Field(default=None, max_length=4000)
    device_class: str | None = Field(default=None, max_length=400)


# ------------------------------------------------------------------------------------ devices


class DeviceEvent(Reply):
    """`since`: from when on what the device measured is in doubt because of it."""

    id: int
    device: str
    kind: DeviceEventKind
    at: datetime
    since: datetime | None
    message: str
    data: dict[str, Any]

    @staticmethod
    def of(event: model_farm.DeviceEvent) -> DeviceEvent:
        found = {name: getattr(event, name) for name in DeviceEvent.model_fields}
        return DeviceEvent(**{**found, "data": dict(event.data)})


class DeviceEventPage(Reply):
    """Latest first. `next` is the `before` of the next page; null on the last one, and for one device's events."""

    events: list[DeviceEvent]
    next: int | None


class NewDeviceEvent(Body):
    """`device` is a name; what is written down is of the device as it was last seen."""

    device: str = Field(min_length=1, max_length=200)
    kind: DeviceEventKind
    message: str = _TEXT


class Lease(Reply):
    """Who holds a device, and for how long already."""

    lease: str
    device: str
    key: str
    user: str
    held_s: float


class LeasesReply(Reply):
    """The tracker's leases as of `as_of`; `problem` says why there are none to show."""

    problem: str
    as_of: datetime
    leases: list[Lease]


# --------------------------------------------------------------------------------- benchmarks


class BenchRun(Reply):
    """One pass of a suite over the devices that an expression named."""

    id: int
    suite: str
    state: str
    message: str
    devices: str
    command: str
    host: str
    user: str
    toolchain: dict[str, str]
    started_at: datetime
    finished_at: datetime | None
    updated_at: datetime
    results: int
    failed: int

    @staticmethod
    def of(run: model_farm.BenchRun) -> BenchRun:
        found = {name: getattr(run, name) for name in BenchRun.model_fields}
        return BenchRun(**{**found, "toolchain": dict(run.toolchain)})


class BenchRunPage(Reply):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    runs: list[BenchRun]
    next: int | None


class BenchResult(Reply):
    """One kernel on one device. `cost_s` is the median of `samples_s`; null, as `failure` is set, without any.
    `calibration_s` is what the calibration kernel took beside it."""

    id: int
    run: int
    sequence: int
    kernel: str
    target: str
    device: str
    device_class: str
    config_digest: str
    failure: str | None
    failure_text: str
    samples_s: list[float]
    cost_s: float | None
    low_s: float | None
    high_s: float | None
    calibration_s: float | None
    noise: list[str]
    toolchain: str
    measured_at: datetime

    @staticmethod
    def of(result: model_farm.BenchResult) -> BenchResult:
        return BenchResult(
            id=result.id,
            run=result.run_id,
            sequence=result.sequence,
            kernel=result.kernel,
            target=result.target,
            device=result.device,
            device_class=result.device_class,
            config_digest=result.config_digest,
            failure=result.failure,
            failure_text=result.failure_text,
            samples_s=list(result.samples),
            cost_s=result.cost,
            low_s=result.low,
            high_s=result.high,
            calibration_s=result.calibration,
            noise=list(result.noise),
            toolchain=result.toolchain,
            measured_at=result.measured_at,
        )


class BenchResultPage(Reply):
    """`next` is the `after` of the next page; null on the last one."""

    results: list[BenchResult]
    next: int | None
