"""Keeping `best_configs` true as trials arrive, within the transaction that adds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, TextClause, bindparam, insert, select, text, update

from tuner.records import catalog
from tuner.records.best import Evidence, elect
from tuner.records.schema import BestConfigRow, TrialRow
from tuner.records.types import utcnow

CONTENDERS = 32
"""How many of the fastest single measurements are looked at, by all their samples, when a best is elected."""


_BESTS = select(BestConfigRow.key_id, BestConfigRow.candidate_id, BestConfigRow.cost).where(
    BestConfigRow.key_id.in_(bindparam("keys", expanding=True))
)


def settle(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Elect anew where trials just added (`rows`, columns of the trials table) could change who is best.

    That is when a key has no best yet, when a trial beat its cost, and when the incumbent itself was measured
    again. Nothing else can win, so most trials cost one look at the incumbent.
    """
    by_key: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["eligible"]:
            by_key[row["key_id"]].append(row)
    if not by_key:
        return
    catalog.lock_keys(connection, by_key)
    best = {row.key_id: row for row in connection.execute(_BESTS, {"keys": list(by_key)})}
    for key_id, added in sorted(by_key.items()):
        known = best.get(key_id)
        if known is None:
            elect_best(connection, key_id, None)
        elif any(row["cost"] < known.cost or row["candidate_id"] == known.candidate_id for row in added):
            elect_best(connection, key_id, known.candidate_id)


def elect_best(connection: Connection, key_id: int, incumbent: int | None) -> None:
    """Choose the best of a tuning key from its trials and write it down. `incumbent` is a candidate to consider
    whatever its rank."""
    contenders = _contenders(connection, key_id, incumbent)
    if not contenders:
        return
    winner = elect(contenders)
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


def of_key(key_id: int) -> TextClause:
    """That a trial is of a tuning key, for queries that name its candidate, too. The sign keeps the database from
    looking for it by the key, which may have millions of trials, where the candidate has a few."""
    return text("+trials.key_id = :key_id").bindparams(key_id=key_id)


def _contenders(connection: Connection, key_id: int, incumbent: int | None) -> list[Evidence]:
    fastest = (
        select(TrialRow.candidate_id)
        .where(TrialRow.key_id == key_id, text("trials.eligible"))
        .order_by(TrialRow.cost)
        .limit(CONTENDERS)
    )
    candidates = {candidate for candidate in connection.scalars(fastest) if candidate is not None}
    if incumbent is not None:
        candidates.add(incumbent)
    query = select(TrialRow.candidate_id, TrialRow.run_id, TrialRow.id, TrialRow.samples).where(
        TrialRow.candidate_id.in_(candidates), of_key(key_id), text("trials.eligible")
    )
    found: dict[int, Evidence] = {}
    for row in sorted(connection.execute(query), key=lambda row: row.id):
        known = found.get(row.candidate_id)
        if known is None:
            found[row.candidate_id] = Evidence(row.candidate_id, row.run_id, row.id, tuple(row.samples))
        else:
            samples = known.samples + tuple(row.samples)
            found[row.candidate_id] = Evidence(known.candidate_id, known.run_id, known.trial_id, samples)
    return list(found.values())
