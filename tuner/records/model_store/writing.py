"""Models into the store: registered, measured, given a file, removed."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from tuner.records.db.schema import DeviceRow, RunRow
from tuner.records.db.schema_models import (
    ModelPartRow,
    ModelProfileRow,
    ModelReaderRow,
    ModelRow,
    ModelRunRow,
    ModelTaskRow,
    ModelTimeRow,
    ModelVersionRow,
    ProfileJobRow,
)
from tuner.records.db.types import utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.facts import to_columns
from tuner.records.lookup.best import interval
from tuner.records.model_store.facts import ModelTimeFacts, NewModelTask, NewModelTime, NewModelVersion
from tuner.records.model_store.reading import no_version
from tuner.records.runs import catalog

MOST_TASKS = 2000
MOST_CALLS = 5000
"""In the picture of a graph."""
MOST_FILE = 4 << 30
MOST_PART = 8 << 20
"""Bytes of a file, and of a piece of it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[\w][\w.:+@/-]{0,199}")
_CHUNK = 1000  # values in one IN list: well under every driver's limit on parameters


def register_all(connection: Connection, news: Sequence[NewModelVersion]) -> list[int]:
    """Keep versions of models, which are made if they are new; return the versions' ids, in order.

    However many there are, the database is asked a few times for each thousand of them. Of a version that is given
    twice the later kernels of a kind of target count.
    """
    for new in news:
        check_version(new)
    if not news:
        return []
    models = _models(connection, news)
    versions = _versions(connection, news, models)
    ids = [versions[models[new.owner, new.name], new.digest] for new in news]
    graphs = {number: [asdict(call) for call in new.graph[:MOST_CALLS]] for number, new in zip(ids, news) if new.graph}
    if graphs:
        drawn = update(ModelVersionRow).where(ModelVersionRow.id == bindparam("of_version"))
        rows = [{"of_version": number, "picture": graph} for number, graph in graphs.items()]
        connection.execute(drawn.values(graph=bindparam("picture", type_=ModelVersionRow.graph.type)), rows)
    _set_tasks(connection, {(number, new.kind): new.tasks for number, new in zip(ids, news)})
    return ids


def _models(connection: Connection, news: Sequence[NewModelVersion]) -> dict[tuple[str, str], int]:
    """The ids of the models that versions are of, by owner and name. Those that are new are made."""
    now = utcnow()
    first = {(new.owner, new.name): new for new in reversed(news)}
    known = _find_models(connection, first)
    values = [{"owner": owner, "name": name, "created_at": now, "updated_at": now} for owner, name in first]
    catalog.insert_missing(connection, ModelRow, values)
    found = _find_models(connection, first)
    for key, new in first.items():
        if key not in known:
            set_readers(connection, found[key], new.readers)
    if known:
        changed = update(ModelRow).where(ModelRow.id == bindparam("of_model")).values(updated_at=now)
        connection.execute(changed, [{"of_model": number} for number in known.values()])
    return found


def _find_models(connection: Connection, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    by_owner: dict[str, list[str]] = defaultdict(list)
    for owner, name in wanted:
        by_owner[owner].append(name)
    found: dict[tuple[str, str], int] = {}
    for owner, names in by_owner.items():
        for start in range(0, len(names), _CHUNK):
            named = catalog.one_of(connection, ModelRow.name, names[start : start + _CHUNK])
            query = select(ModelRow.id, ModelRow.name).where(ModelRow.owner == owner, named)
            found |= {(owner, row.name): row.id for row in connection.execute(query)}
    return found


def _versions(
    connection: Connection, news: Sequence[NewModelVersion], models: Mapping[tuple[str, str], int]
) -> dict[tuple[int, str], int]:
    """The ids of versions, by their model's and their digest. Those that are new are made."""
    now = utcnow()
    rows = [
        {
            "model_id": models[new.owner, new.name], "digest": new.digest, "file_digest": new.file_digest,
            "form": new.form, "sizes": dict(new.sizes), "graph": [], "file_bytes": new.file_bytes, "kept_bytes": 0,
            "created_by": new.created_by, "created_at": now,
        }
        for new in news
    ]  # fmt: skip
    catalog.insert_missing(connection, ModelVersionRow, rows)
    found: dict[tuple[int, str], int] = {}
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        query = select(ModelVersionRow.id, ModelVersionRow.model_id, ModelVersionRow.digest).where(
            ModelVersionRow.model_id.in_({row["model_id"] for row in part}),
            ModelVersionRow.digest.in_({row["digest"] for row in part}),
        )
        found |= {(row.model_id, row.digest): row.id for row in connection.execute(query)}
    return found


def check_version(new: NewModelVersion) -> None:
    """Raise InvalidRecord for a version that contradicts itself."""
    if not _NAME.fullmatch(new.name):
        raise InvalidRecord(f"{new.name!r} is no name of a model", hint="letters, digits and . _ - + : @ /")
    for digest in (new.digest, new.file_digest):
        if not _DIGEST.fullmatch(digest):
            raise InvalidRecord(f"{digest!r} is no digest: it has 64 hexadecimal digits")
    if not 0 <= new.file_bytes <= MOST_FILE:
        raise InvalidRecord(f"a model's file has at most {MOST_FILE >> 30} GiB")
    if len(new.tasks) > MOST_TASKS:
        raise InvalidRecord(f"a model has at most {MOST_TASKS} kernels, not {len(new.tasks)}")
    if any(task.calls < 1 for task in new.tasks):
        raise InvalidRecord("a kernel of a model is called at least once")
    if any(not 0 <= at < number for number, call in enumerate(new.graph) for at in call.inputs):
        raise InvalidRecord("a call of the graph takes the result of a call that does not come before it")


def _set_tasks(connection: Connection, wanted: Mapping[tuple[int, str], Sequence[NewModelTask]]) -> None:
    """Store the kernels of versions, each on one kind of target, replacing the earlier ones.
    Another compiler may make others."""
    of_kind = (ModelTaskRow.version_id == bindparam("of_version"), ModelTaskRow.kind == bindparam("of_kind"))
    connection.execute(delete(ModelTaskRow).where(*of_kind), [{"of_version": n, "of_kind": kind} for n, kind in wanted])
    workloads = catalog.upsert_workloads(connection, [task.workload for tasks in wanted.values() for task in tasks])
    rows: dict[tuple[int, str, int], dict[str, Any]] = {}
    for (version_id, kind), tasks in wanted.items():
        for position, task in enumerate(tasks):
            workload = workloads[task.workload.key]
            if (version_id, kind, workload.id) in rows:
                raise InvalidRecord(f"the kernel {workload.name} is listed twice", hint="add up its calls in one entry")
            rows[version_id, kind, workload.id] = {
                "version_id": version_id, "kind": kind, "position": position, "workload_id": workload.id,
                "names": list(task.names), "calls": task.calls,
            }  # fmt: skip
    if rows:
        connection.execute(insert(ModelTaskRow), list(rows.values()))


def set_readers(connection: Connection, model_id: int, readers: Sequence[str]) -> None:
    connection.execute(delete(ModelReaderRow).where(ModelReaderRow.model_id == model_id))
    rows = [{"model_id": model_id, "reader": name} for name in dict.fromkeys(readers) if name]
    if rows:
        connection.execute(insert(ModelReaderRow), rows)


def link_run(connection: Connection, version_id: int, run_id: int) -> None:
    """Say that a run tunes a version."""
    version_row(connection, version_id)
    if connection.scalar(select(RunRow.id).where(RunRow.id == run_id)) is None:
        raise RecordNotFound(f"there is no run {run_id}")
    catalog.insert_missing(connection, ModelRunRow, [{"version_id": version_id, "run_id": run_id}])


def version_row(connection: Connection, version_id: int, lock: bool = False) -> Any:
    query = select(*ModelVersionRow.__table__.columns).where(ModelVersionRow.id == version_id)
    found = connection.execute(query.with_for_update() if lock else query).first()
    if found is None:
        raise no_version(version_id)
    return found


def add_time(connection: Connection, new: NewModelTime) -> int:
    """Keep an end-to-end measurement, and its profile; return its id."""
    check_time(new)
    version = version_row(connection, new.version_id)
    device_class = connection.scalar(select(DeviceRow.device_class_id).where(DeviceRow.id == new.device_id))
    if device_class is None:
        raise InvalidRecord(f"there is no device {new.device_id}")
    bounds = interval(new.samples)
    values = {
        "model_id": version.model_id, "version_id": new.version_id, "device_id": new.device_id,
        "device_class_id": device_class, "target_id": catalog.upsert_target(connection, new.target).id,
        "cost": bounds.median, "low": bounds.low, "high": bounds.high,
        "measured_at": new.measured_at or utcnow(), **to_columns(ModelTimeFacts, new),
    }  # fmt: skip
    time_id: int = connection.scalars(insert(ModelTimeRow).returning(ModelTimeRow.id), values).one()
    if new.kernels:
        kernels = [asdict(kernel) for kernel in new.kernels]
        connection.execute(insert(ModelProfileRow), {"time_id": time_id, "kernels": kernels})
    connection.execute(update(ModelRow).where(ModelRow.id == version.model_id).values(updated_at=utcnow()))
    return time_id


def check_time(new: NewModelTime) -> None:
    """Raise InvalidRecord for a measurement that contradicts itself."""
    if not new.samples or any(not 0 < sample < 1e9 for sample in new.samples):
        raise InvalidRecord("a measurement has samples, which are seconds")
    if new.tuned_share is not None and not 0 <= new.tuned_share <= 1:
        raise InvalidRecord(f"a share is between 0 and 1, not {new.tuned_share}")


def add_part(connection: Connection, version_id: int, start: int, body: bytes) -> int:
    """Keep the next piece of a version's file; return how many bytes there are now.

    Raises InvalidRecord for a piece that is not the next one. It also raises it if the whole is not the registered
    file; everything kept of it is then deleted.
    """
    version = version_row(connection, version_id, lock=True)
    if start != version.kept_bytes:
        raise InvalidRecord(f"{version.kept_bytes} bytes are here, not {start}", hint="go on from there")
    end = start + len(body)
    if not 0 < len(body) <= MOST_PART or end > version.file_bytes:
        raise InvalidRecord(f"a piece has 1 to {MOST_PART} bytes, and the file {version.file_bytes}")
    connection.execute(insert(ModelPartRow), {"version_id": version_id, "start": start, "body": body})
    connection.execute(update(ModelVersionRow).where(ModelVersionRow.id == version_id).values(kept_bytes=end))
    return end


def check_file(connection: Connection, version_id: int) -> bool:
    """Whether the whole file is the registered one; delete it if not."""
    version = version_row(connection, version_id, lock=True)
    found = hashlib.sha256()
    parts = select(ModelPartRow.start).where(ModelPartRow.version_id == version_id).order_by(ModelPartRow.start)
    for start in connection.scalars(parts).all():
        found.update(connection.scalars(_part(version_id, start)).one())
    if version.kept_bytes == version.file_bytes and found.hexdigest() == version.file_digest:
        return True
    forget_file(connection, version_id)
    return False


def _part(version_id: int, start: int) -> Any:
    return select(ModelPartRow.body).where(ModelPartRow.version_id == version_id, ModelPartRow.start == start)


def forget_file(connection: Connection, version_id: int) -> None:
    connection.execute(delete(ModelPartRow).where(ModelPartRow.version_id == version_id))
    connection.execute(update(ModelVersionRow).where(ModelVersionRow.id == version_id).values(kept_bytes=0))


def remove_version(connection: Connection, version_id: int) -> None:
    """Delete a version with its kernels, times, profiles and file. Workloads and what was tuned stay."""
    version_row(connection, version_id)
    times = select(ModelTimeRow.id).where(ModelTimeRow.version_id == version_id)
    connection.execute(delete(ModelProfileRow).where(ModelProfileRow.time_id.in_(times)))
    for table in (ModelTimeRow, ModelRunRow, ModelTaskRow, ModelPartRow, ProfileJobRow):
        connection.execute(delete(table).where(table.version_id == version_id))
    connection.execute(delete(ModelVersionRow).where(ModelVersionRow.id == version_id))


def remove_model(connection: Connection, model_id: int) -> None:
    """Delete a model whole."""
    for version_id in connection.scalars(select(ModelVersionRow.id).where(ModelVersionRow.model_id == model_id)).all():
        remove_version(connection, version_id)
    connection.execute(delete(ModelReaderRow).where(ModelReaderRow.model_id == model_id))
    connection.execute(delete(ModelRow).where(ModelRow.id == model_id))
