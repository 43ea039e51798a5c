"""Cost models in the store, and the measured candidates that they are trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, text

from tuner.records.db.base import StorePart, page_size
from tuner.records.db.schema import CandidateRow, DeviceClassRow, TargetRow, TrialRow, TuningKeyRow, WorkloadRow
from tuner.records.db.schema_farm import CostModelRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound

MOST_BYTES = 8 << 20
"""The largest model the store takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCostModel:
    """A cost model to keep.
    `trained_on` says how many candidates of which workloads, `rank_accuracy` how well it ranked workloads that it
    was not trained on."""

    target_family: str
    feature_version: int
    format: str
    body: bytes
    trained_on: Mapping[str, Any]
    rank_accuracy: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCostModel(NewCostModel):
    """`digest` is the body's sha256; `version` counts the models of a family and feature version from 1."""

    id: int
    version: int
    digest: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningKey:
    """The key that times compare within, and the workload's function: its spec if it has one, its script."""

    id: int
    workload: str
    workload_name: str
    spec: Mapping[str, Any] | None
    function: str
    target: str
    device_class: str


class CostModelRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def add(self, new: NewCostModel) -> StoredCostModel:
        """Keep a model as the newest of its family and feature version.
        Raises InvalidRecord for one that is too large or empty."""
        if not 0 < len(new.body) <= MOST_BYTES:
            raise InvalidRecord(f"a model has 1 to {MOST_BYTES} bytes, not {len(new.body)}")
        return self._write(lambda c: _add(c, new))

    def in_use(self, target_family: str, feature_version: int) -> StoredCostModel | None:
        """The model in use for a target family, if there is one."""
        of_family = (CostModelRow.target_family == target_family, CostModelRow.feature_version == feature_version)
        query = select(CostModelRow).where(*of_family).order_by(CostModelRow.version.desc()).limit(1)
        return self._read(lambda c: next((_stored(row) for row in c.execute(_columns(query))), None))

    def get(self, model_id: int) -> StoredCostModel:
        """One model. Raises RecordNotFound."""
        query = _columns(select(CostModelRow).where(CostModelRow.id == model_id))
        row = self._read(lambda c: c.execute(query).first())
        if row is None:
            raise RecordNotFound(f"there is no model {model_id}", hint="list them with `tunefarm cost-model list`")
        return _stored(row)

    def newest(self, limit: int = 100) -> tuple[StoredCostModel, ...]:
        """The newest models, newest first."""
        query = _columns(select(CostModelRow).order_by(CostModelRow.id.desc()).limit(page_size(limit)))
        return self._read(lambda c: tuple(_stored(row) for row in c.execute(query)))

    def tuning_keys(self, limit: int = 10_000) -> tuple[TuningKey, ...]:
        """Return what was measured: the newest combinations of workload, target and device class."""
        query = (
            select(
                TuningKeyRow.id,
                WorkloadRow.key.label("workload"),
                WorkloadRow.name.label("workload_name"),
                WorkloadRow.spec,
                WorkloadRow.function,
                TargetRow.text.label("target"),
                DeviceClassRow.name.label("device_class"),
            )
            .join(WorkloadRow, WorkloadRow.id == TuningKeyRow.workload_id)
            .join(TargetRow, TargetRow.id == TuningKeyRow.target_id)
            .join(DeviceClassRow, DeviceClassRow.id == TuningKeyRow.device_class_id)
            .order_by(TuningKeyRow.id.desc())
            .limit(page_size(limit))
        )
        return self._read(lambda c: tuple(TuningKey(**row._mapping) for row in c.execute(query)))

    def measured_traces(self, key_id: int, limit: int = 2000) -> dict[str, float]:
        """Return the least verified cost (seconds) of each candidate, by its trace.
        They are among the newest trials of a tuning key."""
        query = (
            select(CandidateRow.trace, TrialRow.cost)
            .join(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
            .where(TrialRow.key_id == key_id, text("trials.eligible"))
            .order_by(TrialRow.id.desc())
            .limit(page_size(limit))
        )
        found: dict[str, float] = {}
        for row in self._read(lambda c: c.execute(query).all()):
            found[row.trace] = min(row.cost, found.get(row.trace, row.cost))
        return found


def _columns(query: Select[Any]) -> Select[Any]:
    return query.with_only_columns(*CostModelRow.__table__.columns)


def _stored(row: AnyRow) -> StoredCostModel:
    return StoredCostModel(**row._mapping)


def _add(connection: Connection, new: NewCostModel) -> StoredCostModel:
    of_family = (CostModelRow.target_family == new.target_family, CostModelRow.feature_version == new.feature_version)
    newest = connection.scalar(select(func.max(CostModelRow.version)).where(*of_family))
    values: dict[str, Any] = {
        "target_family": new.target_family,
        "version": (newest or 0) + 1,
        "feature_version": new.feature_version,
        "format": new.format,
        "digest": hashlib.sha256(new.body).hexdigest(),
        "body": new.body,
        "trained_on": dict(new.trained_on),
        "rank_accuracy": dict(new.rank_accuracy),
        "created_at": utcnow(),
    }
    [row_id] = connection.scalars(insert(CostModelRow).returning(CostModelRow.id), values)
    return StoredCostModel(id=row_id, **values)
