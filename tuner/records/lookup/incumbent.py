"""Keep `best_configs` true within the transaction that adds trials or takes them out of elections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    TextClause,
    bindparam,
    delete,
    false,
    insert,
    select,
    text,
    update,
)

from rpc_server.wire.trial_messages import FailureKind
from tuner.goals import Goal
from tuner.records.db.schema import (
    BestConfigRow,
    CandidateRow,
    DeviceClassRow,
    RunTaskRow,
    TargetRow,
    TrialRow,
    TuningKeyRow,
    WorkloadRow,
)
from tuner.records.db.types import utcnow
from tuner.records.lookup.best import Evidence, elect
from tuner.records.model import TrialPurpose, disqualifies
from tuner.records.runs import catalog, results

CONTENDERS = 32
"""How many of the lowest single measurements are looked at, by all their samples, when a best is elected."""


_BESTS = select(BestConfigRow.key_id, BestConfigRow.candidate_id, BestConfigRow.cost).where(
    BestConfigRow.key_id.in_(bindparam("keys", expanding=True))
)


def settle(connection: Connection, rows: Sequence[Mapping[str, Any]], closed: Set[int] = frozenset()) -> None:
    """Elect anew where trials just added (`rows`, columns of the trials table) could change who is best.

    That is when a key has no best yet, when a trial beat its cost, when the incumbent itself was measured again, and
    in finals. Nothing else can win, so most trials cost one look at the incumbent. A candidate that was wrong, or
    failed in finals as it ran, is out, whatever it showed before. The bests of `closed` keys are compared with another
    time than before, so they are written anew. Whoever remembers them then asks again.
    """
    by_key: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    failed: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        if row["eligible"]:
            by_key[row["key_id"]].append(row)
        elif _is_rejected(row):
            failed[row["key_id"]].add(row["candidate_id"])
    if not by_key and not closed and not failed:
        return
    catalog.lock_keys(connection, by_key.keys() | closed | failed.keys())
    for key_id, candidates in sorted(failed.items()):
        _take_out(connection, [key_id], TrialRow.candidate_id.in_(candidates))
    if closed:
        again = update(BestConfigRow).where(BestConfigRow.key_id.in_(closed))
        connection.execute(again.values(updated_at=utcnow()))
    if not by_key:
        return
    best = {row.key_id: row for row in connection.execute(_BESTS, {"keys": list(by_key)})}
    for key_id, added in sorted(by_key.items()):
        known = best.get(key_id)
        finalists = {row["candidate_id"] for row in added if row["purpose"] == TrialPurpose.FINAL}
        if known is None:
            elect_best(connection, key_id, None, finalists)
        elif finalists or any(row["cost"] < known.cost or row["candidate_id"] == known.candidate_id for row in added):
            elect_best(connection, key_id, known.candidate_id, finalists)


def _is_rejected(row: Mapping[str, Any]) -> bool:
    """Whether a trial speaks against all earlier ones of its candidate."""
    if row["failure_kind"] is None or None in (row["key_id"], row["candidate_id"]):
        return False
    return disqualifies(FailureKind(row["failure_kind"]), TrialPurpose(row["purpose"]))


def elect_best(connection: Connection, key_id: int, incumbent: int | None, finalists: Set[int] = frozenset()) -> None:
    """Choose the best of a tuning key from its trials and store it.
    `incumbent` and `finalists` are candidates to consider whatever their rank."""
    found = contenders(connection, key_id, finalists if incumbent is None else {incumbent, *finalists})
    if not found:
        return
    winner = elect(found)
    bounds = winner.interval
    now = utcnow()
    values: dict[str, Any] = {
        "trial_id": winner.trial_id,
        "candidate_id": winner.candidate_id,
        "cost": bounds.median,
        "low": bounds.low,
        "high": bounds.high,
        "samples": list(winner.samples),
        "updated_at": now,
    }
    if winner.candidate_id != incumbent:
        values["since"] = now
    if incumbent is None:
        connection.execute(insert(BestConfigRow).values(key_id=key_id, **values))
    else:
        connection.execute(update(BestConfigRow).where(BestConfigRow.key_id == key_id).values(**values))


def elect_again(connection: Connection, key_id: int) -> None:
    """Choose the best of a tuning key from scratch.
    Its present one may rest on trials that are no longer eligible."""
    before = connection.scalar(select(BestConfigRow.candidate_id).where(BestConfigRow.key_id == key_id))
    left = select(TrialRow.id).where(TrialRow.key_id == key_id, text("trials.eligible")).limit(1)
    if connection.scalar(left) is not None:
        elect_best(connection, key_id, before)
    else:
        connection.execute(delete(BestConfigRow).where(BestConfigRow.key_id == key_id))


def give_back(
    connection: Connection, workload_key: str, target: str, device_class: str, keep: Collection[str]
) -> int:  # fmt: skip
    """Take the trials of a workload there out of elections, but for the candidates `keep`.

    Returns their number. The best configs and the results of runs follow.
    """
    keys = _keys_at(connection, workload_key, target, device_class)
    kept = select(CandidateRow.id).where(CandidateRow.digest.in_(list(keep)))
    return _take_out(connection, keys, TrialRow.candidate_id.not_in(kept))


def reject(connection: Connection, workload_key: str, target: str, device_class: str, digest: str) -> int:
    """Take the trials of one candidate of a workload there out of elections.
    Returns their number. The best configs and the results of runs follow."""
    keys = _keys_at(connection, workload_key, target, device_class)
    return _take_out(
        connection, keys, TrialRow.candidate_id.in_(select(CandidateRow.id).where(CandidateRow.digest == digest))
    )


def _keys_at(connection: Connection, workload_key: str, target: str, device_class: str) -> list[int]:
    """Return the tuning keys of a workload there, of all toolchains, and lock them."""
    keys = sorted(
        connection.scalars(
            select(TuningKeyRow.id)
            .join(WorkloadRow, WorkloadRow.id == TuningKeyRow.workload_id)
            .join(TargetRow, TargetRow.id == TuningKeyRow.target_id)
            .join(DeviceClassRow, DeviceClassRow.id == TuningKeyRow.device_class_id)
            .where(
                WorkloadRow.key == workload_key,
                TargetRow.text == str(catalog.parse_target(target)),
                DeviceClassRow.name == device_class,
            )
        )
    )
    catalog.lock_keys(connection, keys)
    return keys


def _take_out(connection: Connection, keys: Sequence[int], which: ColumnElement[bool]) -> int:
    """Take the trials `which` of tuning keys, which are locked, out of elections, and return their number."""
    out = (TrialRow.key_id.in_(keys), text("trials.eligible"), which)
    tasks = connection.scalars(select(TrialRow.task_id).where(*out).distinct()).all()
    count = connection.execute(update(TrialRow).where(*out).values(eligible=false())).rowcount
    for key in keys:
        elect_again(connection, key)
    for task in sorted(tasks):
        run: int = connection.execute(select(RunTaskRow.run_id).where(RunTaskRow.id == task)).scalar_one()
        result = results.final_result(connection, run, task)
        if result is not None:
            connection.execute(update(RunTaskRow).where(RunTaskRow.id == task).values(best_cost=result.cost))
    return int(count)


def of_key(key_id: int) -> TextClause:
    """The condition that a trial is of a tuning key, for queries that name its candidate, too.

    The sign keeps the database from looking for it by the key, which may have millions of trials, where the candidate
    has a few.
    """
    return text("+trials.key_id = :key_id").bindparams(key_id=key_id)


def contenders(
    connection: Connection, key_id: int, besides: Set[int] = frozenset(), goal: Goal = Goal.TIME
) -> list[Evidence]:
    """Return what an election of a tuning key's best by `goal` looks at.

    It is its lowest candidates, and those `besides`. Trials without joules are not among them where energy counts.
    """
    told = [text("trials.eligible")]
    if goal is Goal.ENERGY:
        told.append(text("trials.joules IS NOT NULL"))
    lowest = select(TrialRow.candidate_id).where(TrialRow.key_id == key_id, *told).limit(CONTENDERS)
    ranked = lowest.order_by(TrialRow.cost if goal is Goal.TIME else TrialRow.joules)
    candidates = {candidate for candidate in connection.scalars(ranked) if candidate is not None} | besides
    query = select(
        TrialRow.candidate_id, TrialRow.run_id, TrialRow.id, TrialRow.purpose, TrialRow.samples, TrialRow.joules
    ).where(TrialRow.candidate_id.in_(candidates), of_key(key_id), *told)
    trials: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in sorted(connection.execute(query), key=lambda row: row.id):
        trials[row.candidate_id].append(row)
    return [_evidence(rows, goal) for rows in trials.values()]


def evidence(connection: Connection, key_id: int, candidate_id: int) -> Evidence:
    """Return the evidence of one candidate of a tuning key from its trials. It has some."""
    query = select(
        TrialRow.candidate_id, TrialRow.run_id, TrialRow.id, TrialRow.purpose, TrialRow.samples, TrialRow.joules
    ).where(TrialRow.candidate_id == candidate_id, of_key(key_id), text("trials.eligible"))
    return _evidence(sorted(connection.execute(query), key=lambda row: row.id), Goal.TIME)


def _evidence(trials: Sequence[Row[Any]], goal: Goal) -> Evidence:
    """Return what the trials of one candidate, oldest first, say of it."""
    finals = [row for row in trials if row.purpose == TrialPurpose.FINAL]
    samples = tuple(cost for row in finals or trials for cost in _costs(row, goal))
    shown = (finals or trials)[0].id
    return Evidence(trials[0].candidate_id, trials[0].run_id, shown, samples, final=bool(finals))


def _costs(trial: Row[Any], goal: Goal) -> tuple[float, ...]:
    return goal.costs(trial.samples, {"joules": trial.joules or 0.0}) or ()
