"""What is best for a workload here, and why that answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, or_, select

from compiler.cpu_features import architecture
from compiler.target import Target as CompilerTarget
from tuner.records import catalog
from tuner.records.errors import RecordNotFound
from tuner.records.model import BestConfig, BestLookup
from tuner.records.schema import (
    BestConfigRow,
    CandidateRow,
    DeviceClassRow,
    DeviceRow,
    TargetRow,
    TrialRow,
    TuningKeyRow,
    WorkloadRow,
)
from tuner.records.types import AnyRow

_ALTERNATIVES = 200  # rows looked at when there is no exact match


def _best_select() -> Select[Any]:
    return (
        select(
            *BestConfigRow.__table__.columns,
            WorkloadRow.key.label("workload_key"),
            WorkloadRow.name.label("workload_name"),
            WorkloadRow.flops,
            TargetRow.text.label("target"),
            DeviceClassRow.name.label("device_class"),
            TuningKeyRow.toolchain,
            CandidateRow.digest,
            CandidateRow.trace,
            TrialRow.run_id,
            DeviceRow.name.label("device"),
        )
        .join(TuningKeyRow, TuningKeyRow.id == BestConfigRow.key_id)
        .join(WorkloadRow, WorkloadRow.id == TuningKeyRow.workload_id)
        .join(TargetRow, TargetRow.id == TuningKeyRow.target_id)
        .join(DeviceClassRow, DeviceClassRow.id == TuningKeyRow.device_class_id)
        .join(CandidateRow, CandidateRow.id == BestConfigRow.candidate_id)
        .join(TrialRow, TrialRow.id == BestConfigRow.trial_id)
        .join(DeviceRow, DeviceRow.id == TrialRow.device_id)
    )


_BEST = _best_select()
_EXACT = _BEST.where(WorkloadRow.key == bindparam("workload"), TargetRow.text == bindparam("target")).order_by(
    BestConfigRow.updated_at.desc()
)
_EXACT_IN_CLASS = _EXACT.where(DeviceClassRow.name == bindparam("device_class"))
# built once: putting such a statement together takes longer than running it


def to_best(row: AnyRow) -> BestConfig:
    return BestConfig(
        id=row.id,
        workload_key=row.workload_key,
        workload_name=row.workload_name,
        flops=row.flops,
        target=row.target,
        device_class=row.device_class,
        toolchain=row.toolchain,
        digest=row.digest,
        trace=row.trace,
        cost=row.cost,
        low=row.low,
        high=row.high,
        samples=tuple(row.samples),
        trial_id=row.trial_id,
        run_id=row.run_id,
        device=row.device,
        since=row.since,
        updated_at=row.updated_at,
    )


def best_configs(
    connection: Connection,
    after: int,
    limit: int,
    workload: str | None,
    target: str | None,
    device_class: str | None,
) -> tuple[BestConfig, ...]:
    query = _BEST.where(BestConfigRow.id > after).order_by(BestConfigRow.id).limit(limit)
    if workload is not None:
        query = query.where(or_(WorkloadRow.key == workload, WorkloadRow.name == workload))
    if target is not None:
        query = query.where(TargetRow.text == str(catalog.parse_target(target)))
    if device_class is not None:
        query = query.where(DeviceClassRow.name == device_class)
    return tuple(to_best(row) for row in connection.execute(query))


def newest(connection: Connection, limit: int) -> tuple[BestConfig, ...]:
    query = _BEST.order_by(BestConfigRow.updated_at.desc()).limit(limit)
    return tuple(to_best(row) for row in connection.execute(query))


def best_config(connection: Connection, config_id: int) -> BestConfig:
    row = connection.execute(_BEST.where(BestConfigRow.id == config_id)).first()
    if row is None:
        raise RecordNotFound(f"there is no best config {config_id}")
    return to_best(row)


def best(
    connection: Connection, workload_key: str, target: str, device_class: str | None, toolchain: str | None
) -> BestLookup:
    wanted = catalog.parse_target(target)
    asked = {"workload": workload_key, "target": str(wanted), "device_class": device_class}
    rows = connection.execute(_EXACT if device_class is None else _EXACT_IN_CLASS, asked).all()
    if rows:
        return _same_target([to_best(row) for row in rows], device_class, toolchain)
    return _other_place(connection, workload_key, wanted, device_class)


# -------------------------------------------------------------------------------- exact target


def _same_target(found: Sequence[BestConfig], device_class: str | None, toolchain: str | None) -> BestLookup:
    """`found` (newest first) all have the workload and target asked for, and the device class if one was."""
    chosen = next((config for config in found if config.toolchain == toolchain), found[0])
    explain = [f"workload {chosen.workload_name} and target {chosen.target!r} match"]
    match = "exact"
    classes = sorted({config.device_class for config in found})
    if device_class is not None:
        explain.append(f"device class {device_class} matches")
    elif len(classes) == 1:
        explain.append(f"no device class was asked for; all records are of {classes[0]}")
    else:
        match = "compatible"
        explain.append(
            f"no device class was asked for and there are records of {', '.join(classes)}: this is the newest, "
            f"of {chosen.device_class}; ask for a device class to choose"
        )
    if toolchain is not None and chosen.toolchain != toolchain:
        match = "compatible"
        explain.append(f"measured with {chosen.toolchain}, not with {toolchain}")
    elif toolchain is not None:
        explain.append(f"toolchain {toolchain} matches")
    explain.append(_certainty(chosen))
    return BestLookup(match="exact" if match == "exact" else "compatible", config=chosen, explain=tuple(explain))


def _certainty(config: BestConfig) -> str:
    count = len(config.samples)
    return (
        f"median {config.cost:.6g} s of {count} sample{'s' if count != 1 else ''} on {config.device}, "
        f"95 % interval {config.low:.6g} to {config.high:.6g} s"
    )


# ------------------------------------------------------------------------------- anywhere else


def _other_place(
    connection: Connection, workload_key: str, wanted: CompilerTarget, device_class: str | None
) -> BestLookup:
    workload = catalog.find_workload(connection, workload_key)
    if workload is None:
        return _miss([f"no workload with key {workload_key} is recorded"])
    query = _BEST.where(WorkloadRow.key == workload_key)
    rows = connection.execute(query.order_by(BestConfigRow.updated_at.desc()).limit(_ALTERNATIVES)).all()
    if not rows:
        return _miss([f"workload {workload.name} is known, but no verified measurement of it is recorded"])
    served = _serves(connection, device_class)
    refused: list[str] = []
    for config in sorted(map(to_best, rows), key=lambda c: _distance(c, wanted, device_class)):
        reasons = _obstacles(config, wanted, device_class, served)
        if not reasons:
            return BestLookup(
                match="compatible",
                config=config,
                explain=(*_concessions(config, wanted, device_class), _certainty(config)),
            )
        refused.append(f"{config.target!r} on {config.device_class}: {'; '.join(reasons)}")
    on = f" on device class {device_class}" if device_class else ""
    there_is = [f"there is one for {line}" for line in dict.fromkeys(refused)]
    return _miss([f"workload {workload.name} has no config for target {str(wanted)!r}{on}", *there_is[:10]])


def _miss(explain: Sequence[str]) -> BestLookup:
    return BestLookup(match="miss", config=None, explain=tuple(explain))


def _serves(connection: Connection, device_class: str | None) -> frozenset[str]:
    """The device classes whose configs `device_class` was declared fit for."""
    if device_class is None:
        return frozenset()
    query = select(DeviceClassRow.serves_from).where(DeviceClassRow.name == device_class)
    return frozenset(connection.scalar(query) or ())


def _obstacles(
    config: BestConfig, wanted: CompilerTarget, device_class: str | None, served: frozenset[str]
) -> list[str]:
    """Why `config` must not be given; empty when it may."""
    reasons = []
    has = catalog.parse_target(config.target)
    if has.kind != wanted.kind:
        reasons.append(f"its target is of kind {has.kind}")
    elif _machine(has) != _machine(wanted):
        reasons.append(f"it is for {_machine(has)}")
    elif missing := sorted(has.features - wanted.features):
        reasons.append(f"it needs {', '.join(missing)}")
    if device_class is None and config.target != str(wanted):
        reasons.append("no device class was asked for, so only the exact target will do")
    elif device_class is not None and config.device_class != device_class and config.device_class not in served:
        reasons.append(f"{device_class} is not declared to take configs of {config.device_class}")
    return reasons


def _machine(target: CompilerTarget) -> str:
    return architecture(target.mtriple) if target.device_type == "cpu" else (target.arch or str(target.kind))


def _distance(config: BestConfig, wanted: CompilerTarget, device_class: str | None) -> tuple[bool, bool, int]:
    """Nearest first: the same device class, then the same target, then the fewest features left unused."""
    has = catalog.parse_target(config.target)
    unused = len(wanted.features - has.features)
    return config.device_class != device_class, config.target != str(wanted), unused


def _concessions(config: BestConfig, wanted: CompilerTarget, device_class: str | None) -> list[str]:
    explain = [f"workload {config.workload_name} matches"]
    if config.target != str(wanted):
        explain.append(f"no config for target {str(wanted)!r}; its features include those of {config.target!r}")
    else:
        explain.append(f"target {config.target!r} matches")
    if config.device_class == device_class:
        explain.append(f"device class {device_class} matches")
    else:
        explain.append(
            f"measured on {config.device_class}, whose configs {device_class} is declared to take; "
            "its times are not this device's"
        )
    return explain
