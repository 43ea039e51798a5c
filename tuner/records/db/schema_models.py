"""The tables of models: what they are, the kernels that they call, and how long they take.

```
models ─┬─ model_readers
        └─ model_versions ─┬─ model_tasks ─▶ workloads
                           ├─ model_runs ─▶ runs
                           ├─ model_times ─▶ devices, targets ── model_profiles
                           ├─ profile_jobs
                           └─ model_parts (the file itself, where its owner sent it)
```

A file's bytes belong to one version of one owner's model. Owners share nothing, so an answer reveals nothing of
another one's models, and deleting a model deletes its bytes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from tuner.records.db import schema_farm
from tuner.records.db.schema import Base, add_columns
from tuner.records.db.types import RowId
from tuner.records.model_store.facts import ModelTimeFacts

METADATA = schema_farm.TokenRow.metadata
"""Every table: of this file, of `tuner.records.db.schema` and of `tuner.records.db.schema_farm`."""


class ModelRow(Base):
    """A model by its name. `owner` is who may change it; `model_readers` says who else may see it."""

    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("owner", "name"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    owner: Mapped[str]
    name: Mapped[str] = mapped_column(index=True)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class ModelReaderRow(Base):
    """Someone who may see a model; "*" is everyone who may read the store."""

    __tablename__ = "model_readers"

    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), primary_key=True)
    reader: Mapped[str] = mapped_column(primary_key=True)


class ModelVersionRow(Base):
    """A model as it was in a file.
    `digest` names it: of the file and of the sizes that were fixed. `graph` is its picture; `file_bytes` is how
    large the file is, `kept_bytes` how much of it lies in `model_parts`."""

    __tablename__ = "model_versions"
    __table_args__ = (UniqueConstraint("model_id", "digest"), Index("ix_model_versions_model", "model_id", "id"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    digest: Mapped[str]
    file_digest: Mapped[str]
    form: Mapped[str]
    sizes: Mapped[dict[str, Any]]
    graph: Mapped[list[Any]]
    file_bytes: Mapped[int] = mapped_column(BigInteger())
    kept_bytes: Mapped[int] = mapped_column(BigInteger())
    created_by: Mapped[str]
    created_at: Mapped[datetime]


class ModelTaskRow(Base):
    """A kernel of a version on one kind of target, which a run of the model calls `calls` times.
    `names` are what the graph calls it."""

    __tablename__ = "model_tasks"
    __table_args__ = (UniqueConstraint("version_id", "kind", "workload_id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("model_versions.id"))
    kind: Mapped[str]
    position: Mapped[int]
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"), index=True)
    names: Mapped[list[Any]]
    calls: Mapped[int]


class ModelRunRow(Base):
    """A tuning run that was begun for a version."""

    __tablename__ = "model_runs"

    version_id: Mapped[int] = mapped_column(ForeignKey("model_versions.id"), primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True, index=True)


class ModelTimeRow(Base):
    """The end-to-end time of a version on a device. `cost` is the median of the samples, `low` to `high`
    its 95 % interval. The facts that no query asks for are columns made of `ModelTimeFacts`."""

    __tablename__ = "model_times"
    __table_args__ = (
        Index("ix_model_times_model", "model_id", "id"),
        Index("ix_model_times_model_class", "model_id", "device_class_id", "id"),
        Index("ix_model_times_version_class", "version_id", "device_class_id", "id"),
        Index("ix_model_times_class", "device_class_id", "id"),
        Index("ix_model_times_device", "device_id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    version_id: Mapped[int] = mapped_column(ForeignKey("model_versions.id"))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    device_class_id: Mapped[int] = mapped_column(ForeignKey("device_classes.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    cost: Mapped[float]
    low: Mapped[float]
    high: Mapped[float]
    measured_at: Mapped[datetime]


add_columns(ModelTimeRow, ModelTimeFacts)


class ModelProfileRow(Base):
    """Where the time of a measured run went, kernel by kernel."""

    __tablename__ = "model_profiles"

    time_id: Mapped[int] = mapped_column(ForeignKey("model_times.id"), primary_key=True)
    kernels: Mapped[list[Any]]


class ProfileJobRow(Base):
    """A profile that somebody asked for on the dashboard, on a device of `key`.
    It gave the measurement `time_id`. The process `worker` works on it, and is to be heard of again before
    `worker_until`."""

    __tablename__ = "profile_jobs"
    __table_args__ = (Index("ix_profile_jobs_version", "version_id", "id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("model_versions.id"))
    key: Mapped[str]
    asked_by: Mapped[str]
    state: Mapped[str]
    message: Mapped[str]
    time_id: Mapped[int | None] = mapped_column(RowId)
    asked_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    worker: Mapped[str] = mapped_column(server_default="")
    worker_until: Mapped[datetime | None]


class ModelPartRow(Base):
    """A piece of a version's file, from byte `start` on."""

    __tablename__ = "model_parts"

    version_id: Mapped[int] = mapped_column(ForeignKey("model_versions.id"), primary_key=True)
    start: Mapped[int] = mapped_column(BigInteger(), primary_key=True, autoincrement=False)
    body: Mapped[bytes] = mapped_column(LargeBinary())
