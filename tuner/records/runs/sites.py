"""Where trials count: a run's task together with a device, as the ids in claims and trials."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from tuner.records.db.schema import DeviceRow, RunRow, RunTaskRow
from tuner.records.errors import RecordNotFound
from tuner.records.lookup.keys import toolchain_key
from tuner.records.runs import catalog

Pair = tuple[int, int]
"""A run task and a device, by id."""

_TASKS = (
    select(RunTaskRow.id, RunTaskRow.run_id, RunTaskRow.workload_id, RunTaskRow.target_id, RunRow.toolchain)
    .join(RunRow, RunRow.id == RunTaskRow.run_id)
    .where(RunTaskRow.id.in_(bindparam("ids", expanding=True)))
)
_DEVICES = select(DeviceRow.id, DeviceRow.device_class_id).where(DeviceRow.id.in_(bindparam("ids", expanding=True)))


@dataclass(frozen=True, slots=True)
class TaskSite:
    run_id: int
    workload_id: int
    target_id: int
    toolchain: str
    key_id: int


class TaskSites:
    """Remembers the sites looked up.
    They stay what they are while their run is tuned; `forget` them before another run is, as ids of deleted rows are
    given out again. Usable in any thread."""

    def __init__(self) -> None:
        self._known: dict[Pair, TaskSite] = {}

    def forget(self) -> None:
        self._known.clear()

    def find(self, connection: Connection, pairs: Collection[Pair]) -> dict[Pair, TaskSite]:
        """The sites of `pairs`. Raises RecordNotFound for a task or device that does not exist."""
        found = {pair: site for pair in pairs if (site := self._known.get(pair)) is not None}
        if missing := sorted(set(pairs) - found.keys()):
            made = _look_up(connection, missing)
            self._known |= made.kept
            found |= made.all
        return found


@dataclass(frozen=True)
class _Found:
    """Forget sites whose transaction is undone.
    `kept` are those whose tuning key existed before; a new key is gone again."""

    all: dict[Pair, TaskSite]
    kept: dict[Pair, TaskSite]


def _look_up(connection: Connection, pairs: Collection[Pair]) -> _Found:
    tasks = {row.id: row for row in connection.execute(_TASKS, {"ids": [task for task, _ in pairs]})}
    classes = {row.id: row.device_class_id for row in connection.execute(_DEVICES, {"ids": [d for _, d in pairs]})}
    keys: dict[Pair, catalog.KeyTuple] = {}
    for task, device in pairs:
        if task not in tasks or device not in classes:
            raise RecordNotFound(f"there is no run task {task} or no device {device}")
        row = tasks[task]
        keys[task, device] = (row.workload_id, row.target_id, classes[device], toolchain_key(row.toolchain))
    old = catalog.find_keys(connection, sorted(set(keys.values())))
    ids = old | catalog.key_ids(connection, set(keys.values()) - old.keys())
    sites = {pair: TaskSite(tasks[pair[0]].run_id, key[0], key[1], key[3], ids[key]) for pair, key in keys.items()}
    return _Found(sites, {pair: site for pair, site in sites.items() if keys[pair] in old})
