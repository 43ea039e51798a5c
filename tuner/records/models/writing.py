"""Models into the store: registered, measured, given a file, removed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

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
from tuner.records.models.facts import (
    ModelTimeFacts,
    NewModelTask,
    NewModelTime,
    NewModelVersion,
)
from tuner.records.models.reading import no_version
from tuner.records.runs import catalog

MOST_TASKS = 2000
MOST_CALLS = 5000
"""In the picture of a graph."""
MOST_FILE = 4 << 30
MOST_PART = 8 << 20
"""Bytes of a file, and of a piece of it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[\w][\w.:+@/-]{0,199}")


def register(connection: Connection, new: NewModelVersion) -> int:
    """Keep a version of a model, which is made if it is new; return the version's id."""
    check_version(new)
    now = utcnow()
    values = {"owner": new.owner, "name": new.name, "created_at": now, "updated_at": now}
    known = connection.scalar(_model(new.owner, new.name))
    catalog.insert_missing(connection, ModelRow, [values])
    model_id = connection.scalars(_model(new.owner, new.name)).one()
    if known is None:
        set_readers(connection, model_id, new.readers)
    else:
        connection.execute(update(ModelRow).where(ModelRow.id == model_id).values(updated_at=now))
    version = {
        "model_id": model_id, "digest": new.digest, "file_digest": new.file_digest, "form": new.form,
        "sizes": dict(new.sizes), "graph": [], "file_bytes": new.file_bytes, "kept_bytes": 0,
        "created_by": new.created_by, "created_at": now,
    }  # fmt: skip
    catalog.insert_missing(connection, ModelVersionRow, [version])
    same = (ModelVersionRow.model_id == model_id, ModelVersionRow.digest == new.digest)
    version_id = connection.scalars(select(ModelVersionRow.id).where(*same)).one()
    if new.graph:
        graph = [asdict(call) for call in new.graph[:MOST_CALLS]]
        connection.execute(update(ModelVersionRow).where(ModelVersionRow.id == version_id).values(graph=graph))
    _set_tasks(connection, version_id, new.kind, new.tasks)
    return version_id


def check_version(new: NewModelVersion) -> None:
    """Raises InvalidRecord for a version that contradicts itself."""
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
        raise InvalidRecord("a call takes results of earlier calls")


def _model(owner: str, name: str) -> Any:
    return select(ModelRow.id).where(ModelRow.owner == owner, ModelRow.name == name)


def _set_tasks(connection: Connection, version_id: int, kind: str, tasks: Sequence[NewModelTask]) -> None:
    """The kernels on one kind of target, in place of those known before: another compiler may make others."""
    of_kind = (ModelTaskRow.version_id == version_id, ModelTaskRow.kind == kind)
    connection.execute(delete(ModelTaskRow).where(*of_kind))
    rows: dict[int, dict[str, Any]] = {}
    for task in tasks:
        workload = catalog.upsert_workload(connection, task.workload)
        if workload.id in rows:
            raise InvalidRecord(f"the kernel {workload.name} is there twice")
        rows[workload.id] = {
            "version_id": version_id, "kind": kind, "position": len(rows), "workload_id": workload.id,
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
    """Raises InvalidRecord for a measurement that contradicts itself."""
    if not new.samples or any(not 0 < sample < 1e9 for sample in new.samples):
        raise InvalidRecord("a measurement has samples, which are seconds")
    if new.tuned_share is not None and not 0 <= new.tuned_share <= 1:
        raise InvalidRecord(f"a share is between 0 and 1, not {new.tuned_share}")


def add_part(connection: Connection, version_id: int, start: int, body: bytes) -> int:
    """Keep the next piece of a version's file; return how many bytes there are now.

    Raises InvalidRecord for a piece that is not the next one, and for a whole that is not the file registered: what
    was kept of it is then gone.
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
    """Whether the whole file is the one registered; forget it where it is another."""
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
