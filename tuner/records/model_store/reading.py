"""Models out of the store, for those who may see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select, true
from sqlalchemy.orm import aliased

from tuner.records.db.schema import DeviceClassRow, DeviceRow, TargetRow, WorkloadRow
from tuner.records.db.schema_models import (
    ModelPartRow,
    ModelProfileRow,
    ModelReaderRow,
    ModelRow,
    ModelRunRow,
    ModelTaskRow,
    ModelTimeRow,
    ModelVersionRow,
)
from tuner.records.db.types import AnyRow
from tuner.records.errors import RecordNotFound
from tuner.records.facts import from_columns, of_row
from tuner.records.model_store.facts import (
    EVERYONE,
    GraphCall,
    KernelShare,
    Model,
    ModelTask,
    ModelTime,
    ModelTimeFacts,
    ModelVersion,
    Viewer,
)

_NEWEST = 2**62  # above every id
_CHUNK = 1000  # values in one IN list: well under every driver's limit on parameters
_LATEST = (
    select(ModelVersionRow.digest)
    .where(ModelVersionRow.model_id == ModelRow.id)
    .order_by(ModelVersionRow.id.desc())
    .limit(1)
    .scalar_subquery()
)
_COUNT = select(func.count()).where(ModelVersionRow.model_id == ModelRow.id).scalar_subquery()
_MODELS = select(*ModelRow.__table__.columns, _LATEST.label("latest"), _COUNT.label("versions"))
_VERSIONS = select(
    *(column for column in ModelVersionRow.__table__.columns if column.name != "graph"), ModelRow.name.label("model")
).join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
_TIMES = (
    select(
        *ModelTimeRow.__table__.columns,
        DeviceRow.name.label("device"),
        DeviceClassRow.name.label("device_class"),
        TargetRow.text.label("target"),
    )
    .join(DeviceRow, DeviceRow.id == ModelTimeRow.device_id)
    .join(DeviceClassRow, DeviceClassRow.id == ModelTimeRow.device_class_id)
    .join(TargetRow, TargetRow.id == ModelTimeRow.target_id)
)
_EARLIER = aliased(ModelTimeRow)
_LAST_ID = select(func.max(ModelTimeRow.id)).where(ModelTimeRow.model_id == ModelRow.id).scalar_subquery()
_ID_BEFORE = (
    select(func.max(_EARLIER.id))
    .where(
        _EARLIER.model_id == ModelTimeRow.model_id,
        _EARLIER.device_class_id == ModelTimeRow.device_class_id,
        _EARLIER.id < ModelTimeRow.id,
    )
    .scalar_subquery()
)


def no_model(model: int | str) -> RecordNotFound:
    """Raise the same error for a missing model and for one that the asker may not see."""
    return RecordNotFound(f"there is no model {model}", hint="list them with `tunefarm models`")


def no_version(version: int | str) -> RecordNotFound:
    return RecordNotFound(f"there is no version {version} of that model")


def may_see(viewer: Viewer) -> ColumnElement[bool]:
    """The condition that a model is one which `viewer` may see."""
    if viewer.everything:
        return true()
    readers = (ModelReaderRow.model_id == ModelRow.id, ModelReaderRow.reader.in_([viewer.name, EVERYONE]))
    seen = or_(ModelRow.owner == viewer.name, exists().where(*readers))
    return and_(seen, ModelRow.name.in_(viewer.only)) if viewer.only else seen


def page(connection: Connection, viewer: Viewer, before: int | None, limit: int) -> tuple[Model, ...]:
    query = _MODELS.where(ModelRow.id < (before or _NEWEST), may_see(viewer)).order_by(ModelRow.id.desc()).limit(limit)
    return _models(connection, query)


def get(connection: Connection, viewer: Viewer, model_id: int) -> Model:
    found = _models(connection, _MODELS.where(ModelRow.id == model_id, may_see(viewer)))
    if not found:
        raise no_model(model_id)
    return found[0]


def named(connection: Connection, viewer: Viewer, name: str) -> tuple[Model, ...]:
    """Those of a name, the viewer's own first."""
    found = _models(connection, _MODELS.where(ModelRow.name == name, may_see(viewer)))
    return tuple(sorted(found, key=lambda model: (model.owner != viewer.name, -model.id)))


def _models(connection: Connection, query: Select[Any]) -> tuple[Model, ...]:
    rows = connection.execute(query).all()
    if not rows:
        return ()
    readers: dict[int, list[str]] = {row.id: [] for row in rows}
    asked = select(*ModelReaderRow.__table__.columns).where(ModelReaderRow.model_id.in_(readers))
    for row in connection.execute(asked):
        readers[row.model_id].append(row.reader)
    return tuple(
        Model(
            id=row.id, owner=row.owner, name=row.name, readers=tuple(sorted(readers[row.id])),
            created_at=row.created_at, updated_at=row.updated_at, versions=row.versions, latest=row.latest or "",
        )
        for row in rows
    )  # fmt: skip


def versions(connection: Connection, model_id: int, before: int | None, limit: int) -> tuple[ModelVersion, ...]:
    """A model's versions, newest first."""
    query = _VERSIONS.where(ModelVersionRow.model_id == model_id, ModelVersionRow.id < (before or _NEWEST))
    rows = connection.execute(query.order_by(ModelVersionRow.id.desc()).limit(limit))
    return tuple(_to_version(row) for row in rows)


def version(connection: Connection, viewer: Viewer, version_id: int) -> ModelVersion:
    row = connection.execute(_VERSIONS.where(ModelVersionRow.id == version_id, may_see(viewer))).first()
    if row is None:
        raise no_version(version_id)
    return _to_version(row)


def by_id(connection: Connection, version_ids: Sequence[int]) -> tuple[ModelVersion, ...]:
    """Versions in the order of their ids given."""
    found: dict[int, ModelVersion] = {}
    for start in range(0, len(version_ids), _CHUNK):
        rows = connection.execute(_VERSIONS.where(ModelVersionRow.id.in_(version_ids[start : start + _CHUNK])))
        found |= {row.id: _to_version(row) for row in rows}
    return tuple(found[number] for number in version_ids)


def version_of(connection: Connection, model_id: int, digest: str) -> ModelVersion | None:
    """The version of a model with a digest, or with a digest that begins with the given digits."""
    same = ModelVersionRow.digest.between(digest, digest + "g")
    query = _VERSIONS.where(ModelVersionRow.model_id == model_id, same)
    rows = connection.execute(query.limit(2)).all()
    return _to_version(rows[0]) if len(rows) == 1 else None


def _to_version(row: AnyRow) -> ModelVersion:
    return of_row(ModelVersion, row)


def graph(connection: Connection, version_id: int) -> tuple[GraphCall, ...]:
    found = connection.scalar(select(ModelVersionRow.graph).where(ModelVersionRow.id == version_id))
    return tuple(GraphCall(**{**call, "inputs": tuple(call["inputs"])}) for call in found or ())


def tasks(connection: Connection, version_id: int, kind: str | None) -> tuple[ModelTask, ...]:
    """A version's kernels, those with the most work first."""
    wanted = WorkloadRow.key, WorkloadRow.name.label("workload_name"), WorkloadRow.flops
    query = select(*ModelTaskRow.__table__.columns, *wanted).join(
        WorkloadRow, WorkloadRow.id == ModelTaskRow.workload_id
    )
    query = query.where(ModelTaskRow.version_id == version_id)
    if kind is not None:
        query = query.where(ModelTaskRow.kind == kind)
    found = [
        ModelTask(
            position=row.position, kind=row.kind, workload_id=row.workload_id, workload_key=row.key,
            workload_name=row.workload_name, flops=row.flops, names=tuple(row.names), calls=row.calls,
        )
        for row in connection.execute(query)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda task: (task.kind, task.position)))


def times(
    connection: Connection, model_id: int, device_class: str | None, version_id: int | None, before: int | None,
    limit: int,
) -> tuple[ModelTime, ...]:  # fmt: skip
    """A model's measurements, newest first, of one version or on one device class if given."""
    query = _TIMES.where(ModelTimeRow.model_id == model_id, ModelTimeRow.id < (before or _NEWEST))
    if version_id is not None:
        query = query.where(ModelTimeRow.version_id == version_id)
    if device_class is not None:
        query = query.where(ModelTimeRow.device_class_id == _class(device_class))
    rows = connection.execute(query.order_by(ModelTimeRow.id.desc()).limit(limit))
    return tuple(_to_time(row) for row in rows)


def last_times(connection: Connection, model_ids: Sequence[int]) -> dict[int, tuple[ModelTime, ...]]:
    """The newest measurement of each model that has one, and the one before it on the same device class."""
    found: dict[int, list[ModelTime]] = defaultdict(list)
    for start in range(0, len(model_ids), _CHUNK):
        part = model_ids[start : start + _CHUNK]
        last = [n for n in connection.scalars(select(_LAST_ID).where(ModelRow.id.in_(part))) if n is not None]
        earlier = connection.scalars(select(_ID_BEFORE).where(ModelTimeRow.id.in_(last))) if last else ()
        before = [n for n in earlier if n is not None]
        for ids in filter(None, (last, before)):
            for row in connection.execute(_TIMES.where(ModelTimeRow.id.in_(ids))):
                found[row.model_id].append(_to_time(row))
    return {number: tuple(times) for number, times in found.items()}


def time(connection: Connection, model_id: int, time_id: int) -> ModelTime:
    """One measurement of a model. Raises RecordNotFound."""
    query = _TIMES.where(ModelTimeRow.model_id == model_id, ModelTimeRow.id == time_id)
    row = connection.execute(query).first()
    if row is None:
        raise RecordNotFound(f"there is no time {time_id} of that model", hint="list them with `tunefarm models show`")
    return _to_time(row)


def _class(name: str) -> Any:
    return select(DeviceClassRow.id).where(DeviceClassRow.name == name).scalar_subquery()


def _to_time(row: AnyRow) -> ModelTime:
    return of_row(ModelTime, row, **from_columns(ModelTimeFacts, row))


def environments(connection: Connection, device_class: str, limit: int) -> tuple[Mapping[str, float], ...]:
    """The conditions of the newest measurements on a device class."""
    query = select(ModelTimeRow.__table__.c.environment).where(ModelTimeRow.device_class_id == _class(device_class))
    return tuple(connection.scalars(query.order_by(ModelTimeRow.id.desc()).limit(limit)))


def device_classes(connection: Connection, model_id: int) -> tuple[str, ...]:
    """The device classes that a model was measured on."""
    measured = exists().where(ModelTimeRow.model_id == model_id, ModelTimeRow.device_class_id == DeviceClassRow.id)
    return tuple(sorted(connection.scalars(select(DeviceClassRow.name).where(measured))))


def profile(connection: Connection, time_id: int) -> tuple[KernelShare, ...]:
    found = connection.scalar(select(ModelProfileRow.kernels).where(ModelProfileRow.time_id == time_id))
    return tuple(KernelShare(**kernel) for kernel in found or ())


def newest_profile(connection: Connection, version_id: int, device_class: str) -> tuple[int, tuple[KernelShare, ...]]:
    """Return the kernels of the newest profiled run of a version on a device class.
    With them comes the measurement's id; 0 for none."""
    return _newest_profile(connection, ModelTimeRow.version_id == version_id, device_class)


def newest_profile_of(
    connection: Connection, model_id: int, device_class: str
) -> tuple[int, tuple[KernelShare, ...]]:
    """The same of whichever version of a model."""
    return _newest_profile(connection, ModelTimeRow.model_id == model_id, device_class)


def _newest_profile(
    connection: Connection, which: ColumnElement[bool], device_class: str
) -> tuple[int, tuple[KernelShare, ...]]:
    query = (
        select(ModelProfileRow.time_id, ModelProfileRow.kernels)
        .join(ModelTimeRow, ModelTimeRow.id == ModelProfileRow.time_id)
        .where(which, ModelTimeRow.device_class_id == _class(device_class))
        .order_by(ModelTimeRow.id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return (0, ()) if row is None else (row.time_id, tuple(KernelShare(**kernel) for kernel in row.kernels))


def runs(connection: Connection, version_id: int, limit: int) -> tuple[int, ...]:
    """The newest runs that tuned a version, by id."""
    query = select(ModelRunRow.run_id).where(ModelRunRow.version_id == version_id)
    return tuple(connection.scalars(query.order_by(ModelRunRow.run_id.desc()).limit(limit)))


def of_run(connection: Connection, viewer: Viewer, run_id: int) -> dict[str, int]:
    query = (
        select(ModelRow.name, ModelRow.id)
        .join(ModelVersionRow, ModelVersionRow.model_id == ModelRow.id)
        .join(ModelRunRow, ModelRunRow.version_id == ModelVersionRow.id)
        .where(ModelRunRow.run_id == run_id, may_see(viewer))
    )
    return {row.name: row.id for row in connection.execute(query)}


def parts(connection: Connection, version_id: int, after: int) -> Iterator[tuple[int, bytes]]:
    """The next piece of a version's file from byte `after` on."""
    query = select(ModelPartRow.start, ModelPartRow.body).where(
        ModelPartRow.version_id == version_id, ModelPartRow.start >= after
    )
    for row in connection.execute(query.order_by(ModelPartRow.start).limit(1)):
        yield row.start, row.body


def any_part(connection: Connection) -> bool:
    """Whether there is a file of any version."""
    return connection.execute(select(ModelPartRow.version_id).limit(1)).first() is not None
