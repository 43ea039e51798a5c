"""The configs that take the fewest joules a call, chosen when they are asked for.

They are elected by the rules of the fastest ones (`tuner.records.lookup.best`), among trials with a known energy.
Nothing of it is stored, because such questions are rare, and an index ranks trials by their joules.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, and_, bindparam, case, func, select, text
from sqlalchemy.orm import aliased

from tuner.goals import Goal
from tuner.number_text import duration
from tuner.records.db.schema import BestConfigRow, CandidateRow, DeviceRow, RunTaskRow, TrialRow
from tuner.records.lookup.best import elect
from tuner.records.lookup.incumbent import CONTENDERS, contenders, evidence
from tuner.records.model import BestConfig, TrialPurpose

NO_ENERGY = "has configs, but none of their trials reported its energy; by time there is one"

_BASELINE, _FIRST, _AGAIN = aliased(TrialRow), aliased(TrialRow), aliased(TrialRow)
_FIRST_OF_TASK = select(_FIRST.id).where(_FIRST.task_id == TrialRow.task_id).order_by(_FIRST.sequence).limit(1)
_CHOSEN = (
    select(
        CandidateRow.digest,
        CandidateRow.trace,
        TrialRow.run_id,
        TrialRow.finished_at,
        DeviceRow.name.label("device"),
        RunTaskRow.baseline,
        case((_BASELINE.id.is_not(None), RunTaskRow.baseline_cost)).label("untuned"),
        select(func.min(_AGAIN.joules))  # of several the least, as of several times the shortest
        .where(
            _AGAIN.task_id == TrialRow.task_id,
            _AGAIN.key_id == _BASELINE.key_id,
            _AGAIN.purpose == TrialPurpose.BASELINE,
        )
        .correlate(TrialRow, _BASELINE)
        .scalar_subquery()
        .label("untuned_joules"),
    )
    .join(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
    .join(DeviceRow, DeviceRow.id == TrialRow.device_id)
    .join(RunTaskRow, RunTaskRow.id == TrialRow.task_id)
    .outerjoin(
        _BASELINE,
        and_(
            _BASELINE.id == _FIRST_OF_TASK.correlate(TrialRow).scalar_subquery(),
            _BASELINE.key_id == TrialRow.key_id,
            _BASELINE.purpose == TrialPurpose.BASELINE,
        ),
    )
    .where(TrialRow.id == bindparam("trial"))
)

TELLS_ENERGY = (
    select(TrialRow.id)
    .where(TrialRow.key_id == BestConfigRow.key_id, text("trials.eligible"), text("trials.joules IS NOT NULL"))
    .limit(1)
    .correlate(BestConfigRow)
    .scalar_subquery()
    .is_not(None)
)
"""The condition that a trial of the tuning key reported its energy."""


def most_frugal(connection: Connection, key_id: int, fastest: BestConfig) -> BestConfig | None:
    """Return the config of a tuning key that takes the fewest joules a call.

    None if no trial tells its joules. `fastest` is the key's best config by time, whose id and place it has. `since`
    is when it was first measured.
    """
    found = contenders(connection, key_id, goal=Goal.ENERGY)
    if not found:
        return None
    winner = elect(found)
    energy, timed = winner.interval, evidence(connection, key_id, winner.candidate_id)
    row = connection.execute(_CHOSEN, {"trial": winner.trial_id}).one()
    return replace(
        fastest, digest=row.digest, trace=row.trace, cost=timed.interval.median, low=timed.interval.low,
        high=timed.interval.high, samples=timed.samples, trial_id=winner.trial_id, run_id=row.run_id, device=row.device,
        since=row.finished_at, untuned=row.untuned, baseline=row.baseline, joules=energy.median, joules_low=energy.low,
        joules_high=energy.high, untuned_joules=row.untuned_joules,
    )  # fmt: skip


def notes(connection: Connection, config: BestConfig, fastest: BestConfig) -> tuple[str, ...]:
    """Return the note on a config chosen by energy: how the fastest one compares, and what was left out."""
    same = config.digest == fastest.digest
    lines = ["it is the fastest config, too" if same else f"the fastest config takes {duration(fastest.cost)} a call"]
    key = select(BestConfigRow.key_id).where(BestConfigRow.id == config.id).scalar_subquery()
    ranked = select(TrialRow.joules).where(TrialRow.key_id == key, text("trials.eligible")).order_by(TrialRow.cost)
    told = connection.scalars(ranked.limit(CONTENDERS)).all()
    if silent := told.count(None):
        lines.append(f"{silent} of the {len(told)} fastest trials told no energy and were left out")
    return tuple(lines)
