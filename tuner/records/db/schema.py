"""The tables of tuning; `schema_farm` has the others.

Alembic alone creates them (`migrations/`), and a test holds the two descriptions equal.

```
workloads ─┐                      device_classes ── devices
targets ───┼─ tuning_keys ── best_configs ─▶ trials
           │        ▲                          │ │
           └─ run_tasks ◀──────────────────────┘ └─▶ candidates (one trace each)
                 └── runs, run_failures
claims: a tuning key's candidates that a run is at
```

A *tuning key* is what times may be compared within: workload, target, device class and toolchain. Counters in
`runs`, `run_tasks` and `run_failures` change in the transaction that adds the trials they count, so no page
ever counts rows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Double, ForeignKey, Index, String, UniqueConstraint, false, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tuner.records.db.types import RowId, UTCDateTime
from tuner.records.facts import column_type, optional, types_of
from tuner.records.model import DeviceFacts, RunFacts, RunTaskFacts, TrialFacts, WorkloadFacts


class Base(DeclarativeBase):
    type_annotation_map = {
        datetime: UTCDateTime(),
        float: Double(),
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


_COLUMNS: dict[type, Any] = {float: Double(), str: String(), int: BigInteger(), bool: Boolean(), dict: JSON(),
                             list: JSON(), datetime: UTCDateTime()}  # fmt: skip


def add_columns(row: type[Base], facts: type) -> None:
    """Give a table a column for each fact that its class does not name."""
    for name, kind in types_of(facts).items():
        if name not in row.__table__.columns:
            setattr(row, name, mapped_column(_COLUMNS[column_type(kind)], nullable=optional(kind)[1]))


class WorkloadRow(Base):
    """A function to tune.
    `key` is the workload key (sha256, hex); `spec` makes it again, `function` shows it, `family` is what workloads
    near it have in common."""

    __tablename__ = "workloads"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(index=True)
    spec: Mapped[dict[str, Any] | None]
    function: Mapped[str]
    flops: Mapped[float | None]
    created_at: Mapped[datetime]
    family: Mapped[str] = mapped_column(server_default="", index=True)


add_columns(WorkloadRow, WorkloadFacts)


class TargetRow(Base):
    """`text` is the canonical target string; `features` the CPU features code for it may use."""

    __tablename__ = "targets"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    text: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    features: Mapped[list[Any]]
    created_at: Mapped[datetime]


class DeviceClassRow(Base):
    """Devices whose times are comparable. `serves_from` names classes whose configs this one may be given."""

    __tablename__ = "device_classes"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    features: Mapped[list[Any]]
    serves_from: Mapped[list[Any]]
    created_at: Mapped[datetime]


class DeviceRow(Base):
    """One device as it was at a time: another fingerprint under the same name is another row.
    The columns from `cpu_model` on say what is in `fingerprint` too."""

    __tablename__ = "devices"
    __table_args__ = (UniqueConstraint("name", "fingerprint_digest"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str]
    key: Mapped[str]
    device_class_id: Mapped[int] = mapped_column(ForeignKey("device_classes.id"), index=True)
    fingerprint: Mapped[dict[str, Any]]
    fingerprint_digest: Mapped[str]
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
    cpu_model: Mapped[str] = mapped_column(server_default="")
    gpu: Mapped[str] = mapped_column(server_default="")
    driver: Mapped[str] = mapped_column(server_default="")
    kernel: Mapped[str] = mapped_column(server_default="")
    governor: Mapped[str] = mapped_column(server_default="")
    cpu_features: Mapped[list[Any]] = mapped_column(server_default=text("'[]'"))
    caches: Mapped[list[Any]] = mapped_column(server_default=text("'[]'"))


add_columns(DeviceRow, DeviceFacts)


class TuningKeyRow(Base):
    """The key within which measured times may be compared."""

    __tablename__ = "tuning_keys"
    __table_args__ = (UniqueConstraint("workload_id", "target_id", "device_class_id", "toolchain"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"), index=True)
    device_class_id: Mapped[int] = mapped_column(ForeignKey("device_classes.id"), index=True)
    toolchain: Mapped[str]


class RunRow(Base):
    """One `tunefarm tune`.
    `options` and `command` are what it takes to resume or repeat it; `sequence` is the number of its last trial, of
    whatever purpose. `owner` is the process that works on it, until `owned_until` unless it says so again; `stop_by`
    asked it at `stop_at` to end. Devices were held for it for `held_s` seconds, all together, and measured in
    `busy_s` of them."""

    __tablename__ = "runs"
    __table_args__ = (Index("ix_runs_user", "user", "started_at"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    state: Mapped[str]
    message: Mapped[str]
    user: Mapped[str]
    toolchain: Mapped[dict[str, Any]]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    updated_at: Mapped[datetime]
    sequence: Mapped[int]
    trials: Mapped[int]
    failed: Mapped[int]
    owner: Mapped[str] = mapped_column(server_default="")
    owned_until: Mapped[datetime | None]
    stop_at: Mapped[datetime | None]
    stop_by: Mapped[str] = mapped_column(server_default="")
    held_s: Mapped[float] = mapped_column(server_default="0")
    busy_s: Mapped[float] = mapped_column(server_default="0")


add_columns(RunRow, RunFacts)


class RunTaskRow(Base):
    """One workload on one target within a run.
    `trials` counts search trials and `failed` those without a time; `position` is its place in the run. `baseline`
    names what it is compared with, "" the function as written."""

    __tablename__ = "run_tasks"
    __table_args__ = (UniqueConstraint("run_id", "position"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    position: Mapped[int]
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"), index=True)
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    budget: Mapped[int]
    trials: Mapped[int]
    failed: Mapped[int]
    baseline_cost: Mapped[float | None]
    best_cost: Mapped[float | None]
    baseline: Mapped[str] = mapped_column(server_default="")


add_columns(RunTaskRow, RunTaskFacts)


class RunFailureRow(Base):
    """How often each kind of failure happened in a task, and the first one of it."""

    __tablename__ = "run_failures"

    task_id: Mapped[int] = mapped_column(ForeignKey("run_tasks.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]
    first_trial_id: Mapped[int] = mapped_column(RowId)
    first_text: Mapped[str]


class CandidateRow(Base):
    """A trace for a workload and target, kept once however often it is measured."""

    __tablename__ = "candidates"
    __table_args__ = (UniqueConstraint("workload_id", "target_id", "digest"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    digest: Mapped[str]
    trace: Mapped[str]


class TrialRow(Base):
    """One measurement, or one attempt at it.

    An `eligible` trial may become best: a candidate's, successful, verified, and not `suspect`. A trial is suspect
    if its device failed a check after it. `improved` marks the search trials at which the task's best so far fell,
    so a run's curve is read without reading the run. `joules` are of a call, if the device tells them. The facts
    that no query asks for are not named here; their columns are made of `TrialFacts`.
    """

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("run_id", "sequence"),
        Index("ix_trials_task_sequence", "task_id", "sequence"),
        Index("ix_trials_candidate", "candidate_id"),
        Index("ix_trials_ranking", "key_id", "cost", sqlite_where=text("eligible"), postgresql_where=text("eligible")),
        Index(
            "ix_trials_improved",
            "task_id",
            "sequence",
            "cost",
            sqlite_where=text("improved"),
            postgresql_where=text("improved"),
        ),
        Index(
            "ix_trials_failed",
            "run_id",
            "sequence",
            sqlite_where=text("status = 'failed'"),
            postgresql_where=text("status = 'failed'"),
        ),
        Index("ix_trials_device", "device_id", "finished_at"),
        Index("ix_trials_suspect", "key_id", "cost", sqlite_where=text("suspect"), postgresql_where=text("suspect")),
        Index(
            "ix_trials_energy",
            "key_id",
            "joules",
            sqlite_where=text("eligible AND joules IS NOT NULL"),
            postgresql_where=text("eligible AND joules IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    sequence: Mapped[int]
    task_id: Mapped[int] = mapped_column(ForeignKey("run_tasks.id"))
    key_id: Mapped[int | None] = mapped_column(ForeignKey("tuning_keys.id"))
    candidate_id: Mapped[int | None] = mapped_column(ForeignKey("candidates.id"))
    device_id: Mapped[int | None] = mapped_column(ForeignKey("devices.id"))
    purpose: Mapped[str]
    status: Mapped[str]
    failure_kind: Mapped[str | None]
    samples: Mapped[list[Any]]
    cost: Mapped[float | None]
    mad: Mapped[float | None]
    verified: Mapped[bool]
    eligible: Mapped[bool]
    improved: Mapped[bool]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime]
    suspect: Mapped[bool] = mapped_column(server_default=false())
    joules: Mapped[float | None]


add_columns(TrialRow, TrialFacts)


class ClaimRow(Base):
    """A candidate that a run is about to measure, so that no other run does.
    Ends with its trial, or expires."""

    __tablename__ = "claims"

    key_id: Mapped[int] = mapped_column(ForeignKey("tuning_keys.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    expires_at: Mapped[datetime]


class BestConfigRow(Base):
    """The incumbent of a tuning key.
    `cost`, `low` and `high` (95 %) come from all `samples` of its candidate."""

    __tablename__ = "best_configs"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    key_id: Mapped[int] = mapped_column(ForeignKey("tuning_keys.id"), unique=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"))
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    cost: Mapped[float]
    low: Mapped[float]
    high: Mapped[float]
    samples: Mapped[list[Any]]
    since: Mapped[datetime]
    updated_at: Mapped[datetime] = mapped_column(index=True)


class ServingRow(Base):
    """One row, whose number changes with whatever the answer to a lookup rests on.
    The database changes it (triggers of the migration 0004)."""

    __tablename__ = "serving"

    id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger())
