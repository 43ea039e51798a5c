"""Queries for the best config of a workload here. The rules, and the reasons, are in `matching`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, or_, select, text
from sqlalchemy.orm import aliased

from compiler.runtime.measure.statistics import Interval
from compiler.target.target import Target as CompilerTarget
from tuner.goals import Goal
from tuner.number_text import amount
from tuner.records.db.schema import (
    BestConfigRow,
    CandidateRow,
    DeviceClassRow,
    DeviceRow,
    RunTaskRow,
    TargetRow,
    TrialRow,
    TuningKeyRow,
    WorkloadRow,
)
from tuner.records.db.types import AnyRow
from tuner.records.errors import RecordNotFound
from tuner.records.facts import of_row
from tuner.records.farm import device_events
from tuner.records.lookup.best import compare, interval
from tuner.records.lookup.by_energy import NO_ENERGY, TELLS_ENERGY, most_frugal, notes
from tuner.records.lookup.incumbent import contenders, evidence, of_key
from tuner.records.lookup.matching import Choice, obstacles, other_place, same_target
from tuner.records.model import BestConfig, BestLookup, RunnerUp, TrialPurpose, Workload
from tuner.records.runs import catalog

MOST_KEYS = 1000
"""Workloads asked for at once: well under every driver's limit on parameters."""
_ALTERNATIVES = 200  # configs of each workload looked at when there is no exact match


_BASELINE, _FIRST = aliased(TrialRow), aliased(TrialRow)


def _of_the_same_task() -> ColumnElement[bool]:
    """The condition that the joined trial's task began with the baseline, on a device of the same class.

    Its time is the task's (`tuner.records.lookup.result.untuned_result`), which may change when the run ends.
    """
    first = select(_FIRST.id).where(_FIRST.task_id == TrialRow.task_id).order_by(_FIRST.sequence).limit(1)
    return and_(
        _BASELINE.id == first.correlate(TrialRow).scalar_subquery(),
        _BASELINE.key_id == BestConfigRow.key_id,
        _BASELINE.purpose == TrialPurpose.BASELINE,
    )


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
            case((_BASELINE.id.is_not(None), RunTaskRow.baseline_cost)).label("untuned"),
            RunTaskRow.baseline,
        )
        .join(TuningKeyRow, TuningKeyRow.id == BestConfigRow.key_id)
        .join(WorkloadRow, WorkloadRow.id == TuningKeyRow.workload_id)
        .join(TargetRow, TargetRow.id == TuningKeyRow.target_id)
        .join(DeviceClassRow, DeviceClassRow.id == TuningKeyRow.device_class_id)
        .join(CandidateRow, CandidateRow.id == BestConfigRow.candidate_id)
        .join(TrialRow, TrialRow.id == BestConfigRow.trial_id)
        .join(DeviceRow, DeviceRow.id == TrialRow.device_id)
        .join(RunTaskRow, RunTaskRow.id == TrialRow.task_id)
        .outerjoin(_BASELINE, _of_the_same_task())
    )


_BEST = _best_select()
_ONE = _BEST.where(BestConfigRow.id == bindparam("config"))
_ASKED = WorkloadRow.key.in_(bindparam("workloads", expanding=True))
_EXACT = _BEST.where(_ASKED, TargetRow.text == bindparam("target"))
_EXACT_IN_CLASS = _EXACT.where(DeviceClassRow.name == bindparam("device_class"))
_WORKLOADS = select(WorkloadRow.id, WorkloadRow.key, WorkloadRow.name).where(_ASKED)
_ELSEWHERE = _BEST.where(_ASKED)
_SERVES = select(DeviceClassRow.serves_from).where(DeviceClassRow.name == bindparam("device_class"))
# built once: putting such a statement together takes longer than running it


_BY_TIME = dict.fromkeys(("joules", "joules_low", "joules_high", "untuned_joules"))
"""What only a config that was chosen by energy has."""


def to_best(row: AnyRow) -> BestConfig:
    return of_row(BestConfig, row, samples=tuple(row.samples), **_BY_TIME)


def best_configs(
    connection: Connection, after: int, limit: int, workload: str | None, target: str | None, device_class: str | None,
    goal: Goal = Goal.TIME,
) -> tuple[BestConfig, ...]:  # fmt: skip
    query = _BEST.where(BestConfigRow.id > after).order_by(BestConfigRow.id).limit(limit)
    if workload is not None:
        query = query.where(or_(WorkloadRow.key == workload, WorkloadRow.name == workload))
    if target is not None:
        query = query.where(TargetRow.text == str(catalog.parse_target(target)))
    if device_class is not None:
        query = query.where(DeviceClassRow.name == device_class)
    if goal is Goal.ENERGY:
        query = query.where(TELLS_ENERGY)
    return tuple(_chosen(connection, connection.execute(query).all(), goal))


def _chosen(connection: Connection, rows: Iterable[AnyRow], goal: Goal) -> Iterator[BestConfig]:
    """The best configs of these tuning keys by `goal`, without keys whose trials do not tell it."""
    for row in rows:
        config = to_best(row) if goal is Goal.TIME else most_frugal(connection, row.key_id, to_best(row))
        if config is not None:
            yield config


def newest(connection: Connection, limit: int) -> tuple[BestConfig, ...]:
    query = _BEST.order_by(BestConfigRow.updated_at.desc()).limit(limit)
    return tuple(to_best(row) for row in connection.execute(query))


def best_config(connection: Connection, config_id: int, goal: Goal = Goal.TIME) -> BestConfig:
    row = connection.execute(_ONE, {"config": config_id}).first()
    if row is None:
        raise RecordNotFound(f"there is no best config {config_id}")
    config = next(_chosen(connection, [row], goal), None)
    if config is None:
        raise RecordNotFound(f"no trial of best config {config_id} reported its energy", hint="ask for it by time")
    return config


def best(
    connection: Connection, workload_keys: Collection[str], target: str, device_class: str | None,
    toolchain: str | None, goal: Goal = Goal.TIME,
) -> dict[str, BestLookup]:  # fmt: skip
    """For each of at most `MOST_KEYS` workloads.
    By time, the database is asked as often however many there are."""
    found = exact(connection, workload_keys, target, device_class, toolchain, goal)
    missing = sorted(set(workload_keys) - found.keys())
    if not missing:
        return found
    return found | _elsewhere(connection, missing, catalog.parse_target(target), device_class, goal)


def exact(
    connection: Connection, workload_keys: Collection[str], target: str, device_class: str | None,
    toolchain: str | None, goal: Goal = Goal.TIME,
) -> dict[str, BestLookup]:  # fmt: skip
    """Return `best` of those workloads that have a config of the very target and device class.
    By time it is a single statement."""
    wanted = catalog.parse_target(target)
    asked = {"workloads": sorted(workload_keys), "target": str(wanted), "device_class": device_class}
    rows = connection.execute(_EXACT if device_class is None else _EXACT_IN_CLASS, asked).all()
    configs = _of_workloads(connection, rows, goal)
    return {key: _to_lookup(connection, same_target(found, device_class, toolchain)) for key, found in configs.items()}


def _of_workloads(connection: Connection, rows: Iterable[AnyRow], goal: Goal) -> dict[str, list[BestConfig]]:
    """Each workload's configs, the newest first."""
    configs: dict[str, list[BestConfig]] = defaultdict(list)
    newest_first = sorted(
        rows, key=lambda row: row.updated_at, reverse=True
    )  # few: the database would sort all at once
    for config in _chosen(connection, newest_first, goal):
        configs[config.workload_key].append(config)
    return configs


def _elsewhere(
    connection: Connection, keys: Sequence[str], wanted: CompilerTarget, device_class: str | None, goal: Goal
) -> dict[str, BestLookup]:
    workloads = {row.key: row for row in connection.execute(_WORKLOADS, {"workloads": keys})}
    found = {key: _miss([f"no workload with key {key[:12]} is on record"]) for key in keys if key not in workloads}
    if not workloads:
        return found
    rows = connection.execute(_ELSEWHERE, {"workloads": sorted(workloads)}).all()
    by_time = {row.workload_key for row in rows}
    offers = _of_workloads(connection, rows, goal)
    served = serves(connection, device_class)
    doubts = device_events.suspicions(connection, [row.id for row in workloads.values()])
    for key, row in workloads.items():
        if key in offers:
            answer = _to_lookup(connection, other_place(offers[key][:_ALTERNATIVES], wanted, device_class, served))
        elif key in by_time:
            answer = _miss([f"workload {row.name} {NO_ENERGY}"])
        else:
            answer = _miss([f"workload {row.name} is known, but no verified measurement of it is recorded"])
        doubt = doubts.get(row.id)
        found[key] = replace(answer, explain=(*answer.explain, doubt)) if doubt else answer
    return found


def _to_lookup(connection: Connection, choice: Choice[BestConfig]) -> BestLookup:
    config, explain = choice.config, choice.explain
    if config is not None and config.goal is Goal.ENERGY:
        explain = (*explain, *notes(connection, config, best_config(connection, config.id)))
    if config is not None and config.untuned_cost is not None and config.worse_than_untuned:
        untuned = f"{amount(config.untuned_cost, config.goal.unit)} in run {config.run_id}"
        less = "is faster" if config.goal is Goal.TIME else "takes less energy"
        written = f"the function as written {less}, {untuned}: build it without a config"
        explain = (*explain, f"{config.baseline} {less}, {untuned}" if config.baseline else written)
    return BestLookup(match=choice.match, config=config, explain=explain)


def _miss(explain: Sequence[str]) -> BestLookup:
    return BestLookup(match="miss", config=None, explain=tuple(explain))


def serves(connection: Connection, device_class: str | None) -> frozenset[str]:
    """The device classes whose configs `device_class` was declared fit for."""
    if device_class is None:
        return frozenset()
    return frozenset(connection.scalar(_SERVES, {"device_class": device_class}) or ())


# ----------------------------------------------------------------------------- beside the best


def near(
    connection: Connection, family: str, target: str, device_class: str | None, limit: int
) -> tuple[tuple[Workload, BestConfig], ...]:
    """Configs of workloads of one family that may be given here, newest first, each with its workload.
    Configs that lost to their function as written, or to a baseline, are left out."""
    query = _BEST.where(WorkloadRow.family == family)
    if device_class is None:
        query = query.where(TargetRow.text == target)
    rows = connection.execute(query.order_by(BestConfigRow.updated_at.desc()).limit(limit)).all()
    served = serves(connection, device_class)
    wanted = catalog.parse_target(target)
    offers = [config for config in map(to_best, rows) if not config.worse_than_untuned]
    configs = [config for config in offers if not obstacles(config, wanted, device_class, served)]
    if not configs:
        return ()
    keys = {config.workload_key for config in configs}
    found = connection.execute(catalog.workload_select().where(WorkloadRow.key.in_(keys)))
    workloads = {row.key: catalog.to_workload(row) for row in found}
    return tuple((workloads[config.workload_key], config) for config in configs)


def runners_up(connection: Connection, config: BestConfig, count: int) -> tuple[RunnerUp, ...]:
    """Return other candidates for the same workload, fastest first, each compared with `config`.
    They were measured for the same target, device class and toolchain."""
    key = connection.scalar(select(BestConfigRow.key_id).where(BestConfigRow.id == config.id))
    if key is None:
        return ()
    if config.goal is Goal.ENERGY:
        return _frugal_runners_up(connection, key, config)[:count]
    eligible = text("trials.eligible")
    # a candidate measured several times has several rows: read a few more than asked for
    fastest = select(TrialRow.candidate_id).where(TrialRow.key_id == key, eligible)
    ids = set(connection.scalars(fastest.order_by(TrialRow.cost).limit(4 * (count + 1))))
    query = (
        select(CandidateRow.digest, TrialRow.samples)
        .join(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
        .where(of_key(key), eligible, TrialRow.candidate_id.in_(ids), CandidateRow.digest != config.digest)
    )
    samples: dict[str, list[float]] = defaultdict(list)
    for row in connection.execute(query):
        samples[row.digest] += row.samples
    mine = Interval(config.low, config.cost, config.high)
    found = []
    for digest, costs in samples.items():
        bounds = interval(costs)
        found.append(
            RunnerUp(
                digest=digest,
                cost=bounds.median,
                low=bounds.low,
                high=bounds.high,
                sample_count=len(costs),
                verdict=compare(mine, bounds),
            )
        )
    return tuple(sorted(found, key=lambda r: (r.cost, r.digest))[:count])


def _frugal_runners_up(connection: Connection, key: int, config: BestConfig) -> tuple[RunnerUp, ...]:
    """`runners_up` of a config that was chosen by energy."""
    others = {each.candidate_id: each for each in contenders(connection, key, goal=Goal.ENERGY)}
    named = connection.execute(select(CandidateRow.id, CandidateRow.digest).where(CandidateRow.id.in_(others)))
    found = []
    for row in named:
        if row.digest != config.digest:
            timed, energy = evidence(connection, key, row.id), others[row.id].interval
            found.append(
                RunnerUp(
                    digest=row.digest,
                    cost=timed.interval.median,
                    low=timed.interval.low,
                    high=timed.interval.high,
                    sample_count=len(timed.samples),
                    verdict=compare(config.bounds, energy),
                    joules=energy.median,
                )
            )
    return tuple(sorted(found, key=lambda r: (r.joules or 0.0, r.digest)))
