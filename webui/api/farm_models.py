"""Requests and replies of the API about releases, device events, leases and benchmarks."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from tuner.goals import Goal
from tuner.records.farm import model_farm
from tuner.records.farm.model_farm import DeviceEventKind
from webui.api.shown import ApiObject, Shown, shows

_TEXT = Field(default="", max_length=2000)


class Body(BaseModel):
    """Base of what a client sends: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ----------------------------------------------------------------------------------- releases


@shows(model_farm.Release, renamed={"entry_count": "entries"}, without=("id",))
class Release(Shown):
    """`digest` signs its name and entries. Builds may use it once `approved_at` is set."""


_SECONDS = {"cost": "cost_s", "low": "low_s", "high": "high_s"}


@shows(model_farm.ReleaseEntry, renamed={**_SECONDS, "sample_count": "samples"}, without=("spec", "flops"))
class ReleaseEntry(Shown):
    """One config of a release.
    `trace` is JSON text; `samples` stand behind `cost_s` and its 95 % interval."""


class ReleasePage(ApiObject):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    releases: list[Release]
    next: int | None


class ReleaseDetail(Release):
    """A release with all its configs."""

    configs: list[ReleaseEntry]


class ReleaseChange(ApiObject):
    """The config of one workload, target, device class and toolchain in two releases."""

    old: ReleaseEntry
    new: ReleaseEntry


class ReleaseDiff(ApiObject):
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
    """Freezes the best configs there are: all, or those of `workloads` (keys or names).
    They are also those of `target` and `device_class`, and by `objective`, "time" or "energy"."""

    name: str = Field(min_length=1, max_length=100)
    note: str = _TEXT
    workloads: list[str] = Field(default=[], max_length=10_000)
    target: str | None = Field(default=None, max_length=4000)
    device_class: str | None = Field(default=None, max_length=400)
    objective: Goal = Goal.TIME


# ------------------------------------------------------------------------------------ devices


@shows(model_farm.DeviceEvent, without=("device_id",))
class DeviceEvent(Shown):
    """`since`: from when on what the device measured is in doubt because of it."""


class DeviceEventPage(ApiObject):
    """Latest first.
    `next` is the `before` of the next page; null on the last one, and for one device's events."""

    events: list[DeviceEvent]
    next: int | None


class NewDeviceEvent(Body):
    """`device` is a name; what is written down is of the device as it was last seen."""

    device: str = Field(min_length=1, max_length=200)
    kind: DeviceEventKind
    message: str = _TEXT


class Lease(ApiObject):
    """Who holds a device, and for how long already."""

    lease: str
    device: str
    key: str
    user: str
    held_s: float


class LeasesReply(ApiObject):
    """The tracker's leases as of `as_of`; `problem` says why there are none to show."""

    problem: str
    as_of: datetime
    leases: list[Lease]


# --------------------------------------------------------------------------------- benchmarks


@shows(model_farm.BenchRun, without=("options",))
class BenchRun(Shown):
    """One pass of a suite over the devices that an expression named."""


class BenchRunPage(ApiObject):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    runs: list[BenchRun]
    next: int | None


@shows(
    model_farm.BenchResult,
    renamed={**_SECONDS, "run_id": "run", "samples": "samples_s", "calibration": "calibration_s"},
    without=("environment",),
)
class BenchResult(Shown):
    """One kernel on one device.
    `cost_s` is the median of `samples_s`; null, as `failure` is set, without any. `calibration_s` is what the
    calibration kernel took beside it."""


class BenchResultPage(ApiObject):
    """`next` is the `after` of the next page; null on the last one."""

    results: list[BenchResult]
    next: int | None
