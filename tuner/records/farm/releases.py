"""Releases in the store: made once, approved perhaps, never changed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from math import exp, log

from sqlalchemy import Connection, delete, insert, select, update

from tuner.goals import Goal
from tuner.records.db.schema import WorkloadRow
from tuner.records.db.schema_farm import ReleaseEntryRow, ReleaseRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.facts import of_row
from tuner.records.farm import release_files
from tuner.records.farm.model_farm import Release, ReleaseEntry
from tuner.records.lookup import lookup
from tuner.records.lookup.matching import Choice, choose
from tuner.records.model import BestConfig
from tuner.records.parts.families import StoredFamily, in_use

MOST_ENTRIES = 100_000
_NAME = re.compile(r"[\w][\w.+-]{0,99}")
_RELEASES = select(*ReleaseRow.__table__.columns)
_ENTRIES = select(*ReleaseEntryRow.__table__.columns)
_PAGE = 1000


def create(
    connection: Connection, name: str, note: str, created_by: str, workloads: Sequence[str], target: str | None,
    device_class: str | None, goal: Goal = Goal.TIME,
) -> Release:  # fmt: skip
    """Freeze the present best configs, of all workloads or of those given by key or name; by `goal`."""
    found: list[BestConfig] = []
    families: list[ReleaseEntry] = []
    for workload in workloads or (None,):
        of_one = _all_best(connection, workload, target, device_class, goal)
        of_family = in_use(connection, target, device_class, workload)
        families += map(_frozen_family, of_family)
        if workload is not None and not of_one and not of_family:
            raise InvalidRecord(
                f"there is no config of {workload} to release", hint=f"tune it: tunefarm tune {workload}"
            )
        found += of_one
    if not found and not families:
        raise InvalidRecord("there are no best configs to release", hint="tune something first: tunefarm tune")
    specs = _specs(connection, sorted({config.workload_key for config in found}))
    entries = {e.key: e for e in (_frozen(config, specs[config.workload_key]) for config in found)}
    entries |= {e.key: e for e in families}
    return store(connection, name, note, created_by, release_files.in_order(entries.values()))


def _all_best(
    connection: Connection, workload: str | None, target: str | None, device_class: str | None, goal: Goal
) -> list[BestConfig]:
    found: list[BestConfig] = []
    while len(found) <= MOST_ENTRIES:
        after = found[-1].id if found else 0
        page = lookup.best_configs(connection, after, _PAGE, workload, target, device_class, goal)
        found += page
        if len(page) < _PAGE:
            return found
    raise InvalidRecord(f"a release has at most {MOST_ENTRIES} entries", hint="choose workloads or a device class")


def _specs(connection: Connection, keys: Sequence[str]) -> dict[str, dict[str, object] | None]:
    found: dict[str, dict[str, object] | None] = {}
    for start in range(0, len(keys), _PAGE):
        query = select(WorkloadRow.key, WorkloadRow.spec).where(WorkloadRow.key.in_(keys[start : start + _PAGE]))
        found |= {row.key: row.spec for row in connection.execute(query)}
    return found


def _frozen(config: BestConfig, spec: dict[str, object] | None) -> ReleaseEntry:
    return ReleaseEntry(
        workload_key=config.workload_key, workload_name=config.workload_name, spec=spec, flops=config.flops,
        target=config.target, device_class=config.device_class, toolchain=config.toolchain, digest=config.digest,
        trace=config.trace, cost=config.cost, low=config.low, high=config.high, sample_count=config.sample_count,
        device=config.device,
    )  # fmt: skip


def _frozen_family(family: StoredFamily) -> ReleaseEntry:
    """A family as an entry. Its record stands in a config's trace, and its sizes' mean time in a cost."""
    times = [time for time in family.record.get("best", ()) if time]
    cost = exp(sum(map(log, times)) / len(times)) * family.loss if times else 0.0
    return ReleaseEntry(
        workload_key=family.key, workload_name=family.name, spec={"family": family.record.get("what", {})}, flops=None,
        target=family.target, device_class=family.device_class, toolchain="", digest=family.digest,
        trace=json.dumps(family.record, sort_keys=True), cost=cost, low=cost, high=cost, sample_count=len(times),
        device="",
    )  # fmt: skip


def store(
    connection: Connection, name: str, note: str, created_by: str, entries: Sequence[ReleaseEntry], digest: str = ""
) -> Release:
    """Keep a release of these entries, in order. With `digest`, one that was made elsewhere."""
    if not _NAME.fullmatch(name):
        raise InvalidRecord(f"{name!r} is no name of a release", hint="letters, digits, and . + - _ within")
    if connection.scalar(select(ReleaseRow.id).where(ReleaseRow.name == name)) is not None:
        raise InvalidRecord(f"there is a release {name!r} already", hint="a release never changes: take another name")
    values = {
        "name": name,
        "note": note,
        "digest": digest or release_files.digest(name, entries),
        "entries": len(entries),
        "created_by": created_by,
        "created_at": utcnow(),
        "approved_by": "",
        "approved_at": None,
    }
    release_id: int = connection.execute(insert(ReleaseRow).returning(ReleaseRow.id), values).scalar_one()
    rows = [{"release_id": release_id, **_to_row(entry)} for entry in entries]
    if rows:
        connection.execute(insert(ReleaseEntryRow), rows)
    return get(connection, name)


def _to_row(entry: ReleaseEntry) -> dict[str, object]:
    row = asdict(entry)
    return {**row, "samples": row.pop("sample_count")}


def approve(connection: Connection, name: str, by: str) -> Release:
    """Let builds use it. Raises InvalidRecord when what is stored no longer agrees with its digest."""
    found = get(connection, name)
    if release_files.digest(name, entries(connection, found.id)) != found.digest:
        raise InvalidRecord(f"release {name} does not agree with its digest: rows of it were changed")
    if not found.approved:
        values = {"approved_by": by, "approved_at": utcnow()}
        connection.execute(update(ReleaseRow).where(ReleaseRow.id == found.id).values(**values))
    return get(connection, name)


def remove(connection: Connection, name: str) -> None:
    """Withdraw a release that was never approved. Raises InvalidRecord for one that was."""
    found = get(connection, name)
    if found.approved:
        raise InvalidRecord(f"release {name} was approved, and builds may use it: it is kept")
    connection.execute(delete(ReleaseEntryRow).where(ReleaseEntryRow.release_id == found.id))
    connection.execute(delete(ReleaseRow).where(ReleaseRow.id == found.id))


# ------------------------------------------------------------------------------------ reading


def get(connection: Connection, name: str) -> Release:
    row = connection.execute(_RELEASES.where(ReleaseRow.name == name)).first()
    if row is None:
        raise RecordNotFound(f"there is no release {name!r}", hint="list them with `tunefarm release list`")
    return _to_release(row)


def newest(connection: Connection, before: int | None, limit: int) -> tuple[Release, ...]:
    query = _RELEASES.order_by(ReleaseRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(ReleaseRow.id < before)
    return tuple(_to_release(row) for row in connection.execute(query))


def entries(connection: Connection, release_id: int) -> tuple[ReleaseEntry, ...]:
    query = _ENTRIES.where(ReleaseEntryRow.release_id == release_id)
    return release_files.in_order(_to_entry(row) for row in connection.execute(query))


def best(
    connection: Connection, release: Release, workload_key: str, target: str, device_class: str | None,
    toolchain: str | None,
) -> Choice[ReleaseEntry]:  # fmt: skip
    """Look up as `lookup.best` does, among the release's entries alone."""
    query = _ENTRIES.where(ReleaseEntryRow.release_id == release.id, ReleaseEntryRow.workload_key == workload_key)
    offers = [_to_entry(row) for row in connection.execute(query)]
    if not offers:
        return Choice("miss", None, (f"release {release.name} has no config of workload {workload_key}",))
    served = lookup.serves(connection, device_class)
    found = choose(sorted(offers, key=lambda e: e.key), target, device_class, toolchain, served)
    return Choice(found.match, found.config, (f"release {release.name}", *found.explain))


def _to_release(row: AnyRow) -> Release:
    return of_row(Release, row, entry_count=row.entries)


def _to_entry(row: AnyRow) -> ReleaseEntry:
    return of_row(ReleaseEntry, row, sample_count=row.samples)
