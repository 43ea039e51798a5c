"""Replies of the API, runs apart (`run_models`). Times are seconds (`_s`), moments ISO 8601 in UTC."""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import Any, Literal, Self

from pydantic import Field

from tuner.records import model
from tuner.records.lookup.best import interval
from webui.api.shown import ApiObject, Shown, shows
from webui.fleet import FleetDevice, FleetView

# ------------------------------------------------------------------------------------- errors


class ErrorBody(ApiObject):
    """`kind` is stable and for programs, `message` says what was wrong, `hint` what to do."""

    kind: str
    message: str
    hint: str | None = None
    detail: dict[str, Any] = Field(default_factory=dict)


class ErrorReply(ApiObject):
    """The shape of every error."""

    error: ErrorBody


# --------------------------------------------------------------------------------------- best


@shows(model.Workload, without=("id", "function"))
class Workload(Shown):
    """`key` names the function (equal up to names); `flops` are operations per call."""


@shows(model.Workload, only=("function",))
class WorkloadDetail(Workload):
    """A workload with its function's text.
    `source` is what its newest run keeps of the file that defines it: `file`, `digest` and `name`; null for a
    workload that no run took from a file."""

    source: dict[str, Any] | None


class SampleSummary(ApiObject):
    """The samples of a candidate in short: the median and its 95 % interval, and the extremes."""

    count: int
    median_s: float
    low_s: float
    high_s: float
    min_s: float
    max_s: float

    @staticmethod
    def of(samples: tuple[float, ...]) -> SampleSummary:
        bounds = interval(samples)
        return SampleSummary(
            count=len(samples),
            median_s=median(samples),
            low_s=bounds.low,
            high_s=bounds.high,
            min_s=min(samples),
            max_s=max(samples),
        )


@shows(
    model.BestConfig,
    renamed={"cost": "cost_s", "run_id": "run", "trial_id": "trial", "untuned": "untuned_s"},
    without=("flops", "low", "high"),
)
class Config(Shown):
    """A best config.
    `trace` is JSON text, exactly as recorded: `digest` was taken of it. `untuned_s` is the function's time as
    written, where the same run began with it on the same class of device; where it is under `samples.low_s`, nothing
    faster was found. One chosen by energy has `joules`, the median of a call, with its 95 % interval."""

    gflops: float | None
    samples: SampleSummary

    @classmethod
    def of(cls, record: model.BestConfig, **more: Any) -> Self:
        samples = SampleSummary.of(record.samples)
        return super().of(record, gflops=gflops(record.flops, record.cost), samples=samples, **more)


def gflops(flops: float | None, seconds: float | None) -> float | None:
    return flops / seconds / 1e9 if flops and seconds else None


class ConfigPage(ApiObject):
    """`next` is the `after` of the next page; null on the last one."""

    configs: list[Config]
    next: int | None


class WorkloadPage(ApiObject):
    """`next` is the `after` of the next page; null on the last one."""

    workloads: list[Workload]
    next: int | None


# -------------------------------------------------------------------------------------- fleet


@shows(FleetDevice, without=("check", "lease", "held_s", "info"))
class Device(Shown):
    """A device of the farm.
    `state` is ready, leased, draining, suspect, quarantined, closed or gone; `recorded` when there is no tracker to
    ask. `busy_share` is the part of its time it was lent, 0 to 1."""


class DevicesReply(ApiObject):
    """`source` is where the list comes from.
    `problem` says why the tracker, if there should be one, did not answer: the list is then from the records, or as
    old as `as_of`."""

    source: Literal["tracker", "records"]
    problem: str
    as_of: datetime
    devices: list[Device]

    @staticmethod
    def of(view: FleetView) -> DevicesReply:
        return DevicesReply(
            source=view.source,
            problem=view.problem,
            as_of=view.as_of,
            devices=[Device.of(device) for device in view.devices],
        )


class Health(ApiObject):
    """`status` is `ok` when the record store answers; the tracker being away does not change it."""

    status: Literal["ok"]
    version: str
    store: str
    tracker: Literal["none", "ok", "away"]
    tracker_problem: str
