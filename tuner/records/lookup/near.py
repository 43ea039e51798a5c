"""The workloads of a family with configs that may be given in a place.

They come in the few columns for choosing one.

A frequent caller remembers the answer, and says which one it has. While nothing changed that it rests on, asking
costs one short query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from tuner.records.db.schema import BestConfigRow, DeviceClassRow, ServingRow, TargetRow, TuningKeyRow, WorkloadRow
from tuner.records.lookup import lookup
from tuner.records.lookup.matching import obstacles
from tuner.records.runs import catalog

MOST = 2000
"""Configs that are looked at: the newest."""
_CHUNK = 1000  # values in one IN list: well under every driver's limit on parameters


@dataclass(frozen=True, slots=True)
class NearConfig:
    """A best config, by its id, with what matters for choosing it for another workload."""

    id: int
    workload_key: str
    workload_name: str
    target: str
    device_class: str
    cost: float


@dataclass(frozen=True, slots=True)
class NearConfigs:
    """Those of a family that may be given in a place, the newest first.
    `version` counts changes of what lookups rest on, see the migration 0004."""

    version: int
    configs: tuple[NearConfig, ...]


_VERSION = select(ServingRow.version).where(ServingRow.id == 1)
_OF_FAMILY = (
    select(
        BestConfigRow.id,
        WorkloadRow.key,
        WorkloadRow.name,
        TargetRow.text,
        DeviceClassRow.name.label("device_class"),
        BestConfigRow.cost,
    )
    .join(TuningKeyRow, TuningKeyRow.id == BestConfigRow.key_id)
    .join(WorkloadRow, WorkloadRow.id == TuningKeyRow.workload_id)
    .join(TargetRow, TargetRow.id == TuningKeyRow.target_id)
    .join(DeviceClassRow, DeviceClassRow.id == TuningKeyRow.device_class_id)
    .where(WorkloadRow.family == bindparam("family"))
    .order_by(BestConfigRow.updated_at.desc())
    .limit(MOST)
)
_FOR_TARGET = _OF_FAMILY.where(TargetRow.text == bindparam("target"))
_OF_CLASSES = _OF_FAMILY.where(DeviceClassRow.name.in_(bindparam("classes", expanding=True)))
_FUNCTIONS = select(WorkloadRow.key, WorkloadRow.function).where(WorkloadRow.key.in_(bindparam("keys", expanding=True)))


def near_configs(
    connection: Connection, family: str, target: str, device_class: str | None, known: int | None
) -> NearConfigs | None:
    """None when the answer is that of version `known`."""
    version = connection.scalar(_VERSION)
    if version == known:
        return None
    wanted = catalog.parse_target(target)
    served = lookup.serves(connection, device_class)
    if device_class is None:
        rows = connection.execute(_FOR_TARGET, {"family": family, "target": str(wanted)})
    else:
        rows = connection.execute(_OF_CLASSES, {"family": family, "classes": sorted(served | {device_class})})
    configs = [NearConfig(*row) for row in rows]
    fit = {
        place: not obstacles(config, wanted, device_class, served)
        for place, config in {(c.target, c.device_class): c for c in configs}.items()
    }
    return NearConfigs(version or 0, tuple(c for c in configs if fit[c.target, c.device_class]))


def functions(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    """The scripts of workloads, by key."""
    found: dict[str, str] = {}
    for start in range(0, len(keys), _CHUNK):
        rows = connection.execute(_FUNCTIONS, {"keys": keys[start : start + _CHUNK]})
        found |= {row.key: row.function for row in rows}
    return found
