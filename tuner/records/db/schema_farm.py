"""The tables around tuning.

What happened to devices, who may ask, what is released, benchmarks, cost models.

```
devices ── device_events          releases ── release_entries (frozen copies, which refer to nothing)
bench_suites ── bench_runs ── bench_results ─▶ devices, targets, workloads
tokens      quotas      cost_models      families (whole copies, which refer to nothing)
```
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from tuner.records.db.schema import Base, add_columns
from tuner.records.db.types import RowId
from tuner.records.farm.model_farm import BenchFacts
from tuner.records.model import CommandFacts


class DeviceEventRow(Base):
    """Something that happened to a device, see `tuner.records.farm.model_farm.DeviceEventKind`.
    Its measurements from `since` on are in doubt because of it."""

    __tablename__ = "device_events"
    __table_args__ = (Index("ix_device_events_device", "device_id", "at"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    kind: Mapped[str]
    at: Mapped[datetime]
    since: Mapped[datetime | None]
    message: Mapped[str]
    data: Mapped[dict[str, Any]]


class TokenRow(Base):
    """Who may use the API, and for what. Of the token itself only its sha256 is kept."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]
    scopes: Mapped[dict[str, Any] | None]


class QuotaRow(Base):
    """The limits of a user of the farm within `days`; None: no limit. User "*" is everyone else."""

    __tablename__ = "quotas"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    user: Mapped[str] = mapped_column(unique=True)
    device_hours: Mapped[float | None]
    trials: Mapped[int | None] = mapped_column(BigInteger)
    runs: Mapped[int | None] = mapped_column(BigInteger)
    days: Mapped[int] = mapped_column(BigInteger)
    set_by: Mapped[str]
    set_at: Mapped[datetime]


class ReleaseRow(Base):
    """A named set of configs that never changes.
    `digest` is a checksum of its name and entries; `approved_at` is when `approved_by` let builds use it."""

    __tablename__ = "releases"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    note: Mapped[str]
    digest: Mapped[str]
    entries: Mapped[int]
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    approved_by: Mapped[str]
    approved_at: Mapped[datetime | None]


class ReleaseEntryRow(Base):
    """One config of a release, whole: nothing that happens to runs and best configs later changes it."""

    __tablename__ = "release_entries"
    __table_args__ = (UniqueConstraint("release_id", "workload_key", "target", "device_class", "toolchain"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    release_id: Mapped[int] = mapped_column(ForeignKey("releases.id"))
    workload_key: Mapped[str]
    workload_name: Mapped[str]
    spec: Mapped[dict[str, Any] | None]
    flops: Mapped[float | None]
    target: Mapped[str]
    device_class: Mapped[str]
    toolchain: Mapped[str]
    digest: Mapped[str]
    trace: Mapped[str]
    cost: Mapped[float]
    low: Mapped[float]
    high: Mapped[float]
    samples: Mapped[int]
    device: Mapped[str]


class BenchSuiteRow(Base):
    """A benchmark suite as it was: another definition under the same name is another row."""

    __tablename__ = "bench_suites"
    __table_args__ = (UniqueConstraint("name", "digest"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str]
    digest: Mapped[str]
    spec: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class BenchRunRow(Base):
    """One pass of a suite over the devices that the expression `devices` names."""

    __tablename__ = "bench_runs"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    suite_id: Mapped[int] = mapped_column(ForeignKey("bench_suites.id"), index=True)
    state: Mapped[str]
    message: Mapped[str]
    devices: Mapped[str]
    toolchain: Mapped[dict[str, Any]]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    updated_at: Mapped[datetime]
    results: Mapped[int]
    failed: Mapped[int]


add_columns(BenchRunRow, CommandFacts)


class BenchResultRow(Base):
    """One kernel on one device.
    `kernel` names the series it continues on that device; a kernel without a workload is the harness's own.
    `calibration` is what the calibration kernel took beside it, in seconds."""

    __tablename__ = "bench_results"
    __table_args__ = (
        UniqueConstraint("run_id", "sequence"),
        Index("ix_bench_results_series", "device_id", "kernel", "measured_at"),
        Index("ix_bench_results_kernel", "kernel", "measured_at"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("bench_runs.id"))
    sequence: Mapped[int]
    kernel: Mapped[str]
    workload_id: Mapped[int | None] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    status: Mapped[str]
    failure_kind: Mapped[str | None]
    cost: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    toolchain: Mapped[str]
    measured_at: Mapped[datetime]


add_columns(BenchResultRow, BenchFacts)


class CostModelRow(Base):
    """A trained cost model.
    `body` is in `format`, and `digest` its sha256; the highest `version` of a target family and feature version is
    the one in use."""

    __tablename__ = "cost_models"
    __table_args__ = (UniqueConstraint("target_family", "feature_version", "version"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    target_family: Mapped[str]
    version: Mapped[int]
    feature_version: Mapped[int]
    format: Mapped[str]
    digest: Mapped[str]
    body: Mapped[bytes]
    trained_on: Mapped[dict[str, Any]]
    rank_accuracy: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class FamilyRow(Base):
    """One function at many sizes: the configs chosen for it, their times and the rule, whole, in `record`.
    The newest of a key, target and device class is `current`. `loss` is the portfolio's time over each size's best."""

    __tablename__ = "families"
    __table_args__ = (
        Index("ix_families_key", "key", "id"),
        Index("ix_families_place", "key", "target", "id"),
        Index("ix_families_current", "current", "id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    key: Mapped[str]
    name: Mapped[str]
    target: Mapped[str]
    device_class: Mapped[str]
    run_id: Mapped[int | None] = mapped_column(RowId)
    digest: Mapped[str]
    loss: Mapped[float]
    record: Mapped[dict[str, Any]]
    current: Mapped[bool]
    created_at: Mapped[datetime]
