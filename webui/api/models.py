"""What the API answers with, runs apart (`run_models`). Times are seconds (`_s`), moments ISO 8601 in UTC."""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.records import model
from tuner.records.lookup.best import interval
from webui.fleet import FleetDevice, FleetView


class Reply(BaseModel):
    """Base of the API's objects."""

    model_config = ConfigDict(frozen=True)


# ------------------------------------------------------------------------------------- errors


class ErrorBody(Reply):
    """`kind` is stable and for programs, `message` says what was wrong, `hint` what to do."""

    kind: str
    message: str
    hint: str | None = None
    detail: dict[str, Any] = Field(default_factory=dict)


class ErrorReply(Reply):
    """The shape of every error."""

    error: ErrorBody


# --------------------------------------------------------------------------------------- best


class Workload(Reply):
    """`key` names the function (equal up to names); `flops` are operations per call."""

    key: str
    name: str
    spec: dict[str, Any] | None
    flops: float | None
    created_at: datetime

    @staticmethod
    def of(workload: model.Workload) -> Workload:
        return Workload(
            key=workload.key,
            name=workload.name,
            spec=None if workload.spec is None else dict(workload.spec),
            flops=workload.flops,
            created_at=workload.created_at,
        )


class WorkloadDetail(Workload):
    """With the function's text."""

    function: str


class SampleSummary(Reply):
    """Of all samples of a candidate: the median and its 95 % interval, and the extremes."""

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


class Config(Reply):
    """A best config. `trace` is JSON text, exactly as recorded: `digest` was taken of it. `untuned_s` is the function's
    time as written, where the same run began with it on the same class of device; where it is under `samples.low_s`,
    nothing faster was found."""

    id: int
    workload_key: str
    workload_name: str
    target: str
    device_class: str
    toolchain: str
    digest: str
    trace: str
    cost_s: float
    gflops: float | None
    samples: SampleSummary
    device: str
    run: int
    trial: int
    since: datetime
    updated_at: datetime
    untuned_s: float | None

    @staticmethod
    def of(config: model.BestConfig) -> Config:
        return Config(
            id=config.id,
            workload_key=config.workload_key,
            workload_name=config.workload_name,
            target=config.target,
            device_class=config.device_class,
            toolchain=config.toolchain,
            digest=config.digest,
            trace=config.trace,
            cost_s=config.cost,
            gflops=gflops(config.flops, config.cost),
            samples=SampleSummary.of(config.samples),
            device=config.device,
            run=config.run_id,
            trial=config.trial_id,
            since=config.since,
            updated_at=config.updated_at,
            untuned_s=config.untuned,
        )


def gflops(flops: float | None, seconds: float | None) -> float | None:
    return flops / seconds / 1e9 if flops and seconds else None


class ConfigPage(Reply):
    """`next` is the `after` of the next page; null on the last one."""

    configs: list[Config]
    next: int | None


class WorkloadPage(Reply):
    """`next` is the `after` of the next page; null on the last one."""

    workloads: list[Workload]
    next: int | None


# -------------------------------------------------------------------------------------- fleet


class Device(Reply):
    """`state` is ready, leased, draining, suspect, quarantined, closed or gone; `recorded` when there is no tracker to
    ask. `busy_share` is the part of its time it was lent, 0 to 1."""

    name: str
    key: str
    state: str
    reason: str
    box: str
    address: str
    device_class: str
    cpu: str
    cores: int | None
    user: str | None
    busy_share: float | None
    seen_at: datetime

    @staticmethod
    def of(device: FleetDevice) -> Device:
        return Device(**{name: getattr(device, name) for name in Device.model_fields})


class DevicesReply(Reply):
    """`source` is where the list comes from. `problem` says why the tracker, if there should be one, did not
    answer: the list is then from the records, or as old as `as_of`."""

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


class Health(Reply):
    """`status` is `ok` when the record store answers; the tracker being away does not change it."""

    status: Literal["ok"]
    version: str
    store: str
    tracker: Literal["none", "ok", "away"]
    tracker_problem: str
