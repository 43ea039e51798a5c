"""Who works on what: a run belongs to one process at a time, a candidate to one run.

Both kinds of ownership lapse unless they are renewed, so a killed process's runs and candidates become free by
themselves. Times are the database server's where there is one, so the clocks of tuners need not agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, bindparam, delete, not_, select, text, update

from rpc_server.wire.trial_messages import FailureKind
from tuner.records.db.schema import CandidateRow, ClaimRow, RunRow, TrialRow, TuningKeyRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import RunBusy, RunStopped, RunTakenOver
from tuner.records.lookup.keys import toolchain_key
from tuner.records.model import Run, RunState, RunUse, TrialPurpose
from tuner.records.runs import catalog
from tuner.records.runs.runs import no_run, set_state
from tuner.records.runs.sites import TaskSite

LEASE_S = 20.0
"""How long a run and its claims stay with a process that does not renew them."""

_NOT_CONCLUSIVE = (FailureKind.UPLOAD,)  # the candidate may not be to blame
_BAD_ANYWHERE = (FailureKind.CRASH, FailureKind.DEVICE_LOST)  # what took one box down is not sent to another


class ClaimState(StrEnum):
    CLAIMED = "claimed"  # nobody has measured it or is about to: it is the asker's now
    KNOWN = "known"  # there is a result
    TAKEN = "taken"  # another run is at it


@dataclass(frozen=True, slots=True)
class WantedClaims:
    """Candidates that a run asks for, to measure on devices of the class of `device_id`."""

    task_id: int
    device_id: int
    digests: Sequence[str]


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """`cost` (seconds a call) or `failure` where the result is known."""

    state: ClaimState
    cost: float | None = None
    failure: FailureKind | None = None


# --------------------------------------------------------------------------------------- runs


def take_run(
    connection: Connection, run_id: int, owner: str, is_gone: Callable[[str], bool], queued_only: bool
) -> None:
    row = _locked(connection, run_id)
    now = current_time(connection)
    held = row.owner not in ("", owner) and row.owned_until is not None and row.owned_until > now
    if held and not is_gone(row.owner):
        left = (row.owned_until - now).total_seconds()
        raise RunBusy(
            f"run {run_id} is being tuned by {row.owner}",
            hint=f"stop it there first; if it is dead, the run is free in {left:.0f} s",
        )
    if queued_only and row.state != RunState.QUEUED:
        raise RunStopped(f"run {run_id} was stopped before it began: it is {row.state}")
    connection.execute(delete(ClaimRow).where(ClaimRow.run_id == run_id))
    _own(connection, run_id, owner, now)


def renew_run(connection: Connection, run_id: int, owner: str, use: RunUse | None) -> None:
    row = _locked(connection, run_id)
    check_owner(run_id, row.owner, owner)
    now = current_time(connection)
    _own(connection, run_id, owner, now)
    _keep_use(connection, run_id, use)
    connection.execute(update(ClaimRow).where(ClaimRow.run_id == run_id).values(expires_at=_lapse(now)))


def leave_run(
    connection: Connection, run_id: int, owner: str, state: RunState, message: str, use: RunUse | None
) -> Run:  # fmt: skip
    row = _locked(connection, run_id)
    check_owner(run_id, row.owner, owner)
    _keep_use(connection, run_id, use)
    return free_run(connection, run_id, state, message)


def free_run(connection: Connection, run_id: int, state: RunState, message: str) -> Run:
    """Nobody's any more, whoever had it, and nothing is claimed for it."""
    connection.execute(delete(ClaimRow).where(ClaimRow.run_id == run_id))
    connection.execute(update(RunRow).where(RunRow.id == run_id).values(owner="", owned_until=None))
    return set_state(connection, run_id, state, message, None)


def check_owner(run_id: int, found: str, owner: str) -> None:
    """Raise RunTakenOver when the run is not, or no longer, `owner`'s."""
    if found != owner:
        raise RunTakenOver(
            f"run {run_id} was taken over by {found or 'nobody'} while this process was not heard of",
            hint="it goes on there; nothing measured here since then is recorded",
        )


def _locked(connection: Connection, run_id: int) -> AnyRow:
    query = select(RunRow.state, RunRow.owner, RunRow.owned_until).where(RunRow.id == run_id).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        raise no_run(run_id)
    return row


def _keep_use(connection: Connection, run_id: int, use: RunUse | None) -> None:
    if use is not None:
        connection.execute(update(RunRow).where(RunRow.id == run_id).values(held_s=use.held_s, busy_s=use.busy_s))


def _own(connection: Connection, run_id: int, owner: str, now: datetime) -> None:
    connection.execute(update(RunRow).where(RunRow.id == run_id).values(owner=owner, owned_until=_lapse(now)))


def _lapse(now: datetime) -> datetime:
    return now + timedelta(seconds=LEASE_S)


def current_time(connection: Connection) -> datetime:
    """The time by which leases and claims lapse."""
    if connection.dialect.name == "postgresql":
        now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        return now
    return utcnow()


# --------------------------------------------------------------------------------- candidates


_HOLDERS = select(ClaimRow.digest, ClaimRow.run_id).where(
    ClaimRow.key_id == bindparam("key"), ClaimRow.digest.in_(bindparam("digests", expanding=True))
)
_RELEASE = delete(ClaimRow).where(
    ClaimRow.key_id == bindparam("key"),
    ClaimRow.run_id == bindparam("run"),
    ClaimRow.digest.in_(bindparam("digests", expanding=True)),
)


def claim(connection: Connection, site: TaskSite, digests: Sequence[str]) -> dict[str, ClaimAnswer]:
    """Claim candidates, for a caller that has locked the tuning key.
    The insert comes first. A run that records a trial gives up its claim in the same transaction, so whoever gets
    the claim after it sees the trial."""
    wanted = sorted(set(digests))
    holders = _hold(connection, site, wanted)
    known = _results(connection, site, wanted)
    _give_up(connection, site, [d for d in known if holders.get(d) == site.run_id])
    return {d: known.get(d) or _answer(holders.get(d), site.run_id) for d in digests}


def _hold(connection: Connection, site: TaskSite, digests: Sequence[str]) -> dict[str, int]:
    """Claim what is free or has lapsed; which run holds each after that."""
    now = current_time(connection)
    held = {"key_id": site.key_id, "run_id": site.run_id, "expires_at": _lapse(now)}
    new = catalog.upsert(connection, ClaimRow)
    query = new.on_conflict_do_update(
        index_elements=[ClaimRow.key_id, ClaimRow.digest],
        set_={"run_id": new.excluded.run_id, "expires_at": new.excluded.expires_at},
        where=ClaimRow.expires_at <= now,
    ).returning(ClaimRow.digest)
    got = connection.scalars(query, [{**held, "digest": digest} for digest in digests])
    holders = dict.fromkeys(got, site.run_id)
    if left := [d for d in digests if d not in holders]:
        rows = connection.execute(_HOLDERS, {"key": site.key_id, "digests": left})
        holders |= {row.digest: row.run_id for row in rows}
    return holders


def _answer(holder: int | None, run_id: int) -> ClaimAnswer:
    return ClaimAnswer(ClaimState.CLAIMED if holder == run_id else ClaimState.TAKEN)


def release(connection: Connection, site: TaskSite, digests: Sequence[str]) -> None:
    _give_up(connection, site, digests)


_SETTLE = delete(ClaimRow).where(
    ClaimRow.run_id == bindparam("run"),
    ClaimRow.key_id.in_(
        select(TuningKeyRow.id).where(
            TuningKeyRow.workload_id == bindparam("workload"), TuningKeyRow.target_id == bindparam("target")
        )
    ),
)


def settle_claims(
    connection: Connection, run_id: int, workload_id: int, target_id: int, digests: Sequence[str]
) -> None:
    """End the run's claims on candidates that have a trial now."""
    of = {"run": run_id, "workload": workload_id, "target": target_id}
    connection.execute(_SETTLE.where(catalog.one_of(connection, ClaimRow.digest, digests)), of)


def _give_up(connection: Connection, site: TaskSite, digests: Sequence[str]) -> None:
    if digests:
        connection.execute(_RELEASE, {"key": site.key_id, "run": site.run_id, "digests": digests})


_RESULTS = (
    select(
        TrialRow.id,
        CandidateRow.digest,
        TrialRow.key_id,
        TrialRow.cost,
        TrialRow.verified,
        TrialRow.failure_kind,
        RunRow.toolchain,
    )
    .join(TrialRow, TrialRow.candidate_id == CandidateRow.id)
    .join(RunRow, RunRow.id == TrialRow.run_id)
    .where(
        CandidateRow.workload_id == bindparam("workload"),
        CandidateRow.target_id == bindparam("target"),
        CandidateRow.digest.in_(bindparam("digests", expanding=True)),
        TrialRow.purpose != str(TrialPurpose.BASELINE),
        not_(TrialRow.suspect),
    )
)


def _results(connection: Connection, site: TaskSite, digests: Sequence[str]) -> dict[str, ClaimAnswer]:
    """Return results of the candidates' earlier trials.

    It is the first verified time on this tuning key, a failure there or before any device, or a box that it crashed
    anywhere with this toolchain. Measurements of a device that failed its next health check are left out.
    """
    of = {"workload": site.workload_id, "target": site.target_id}
    rows = connection.execute(_RESULTS, {**of, "digests": digests})
    found: dict[str, ClaimAnswer] = {}
    for row in sorted(rows, key=lambda row: row.id):
        answer = _conclusion(row, site)
        # a failure outweighs a time: what once gave a wrong result is not to be trusted
        if answer is not None and (answer.failure is not None or row.digest not in found):
            found[row.digest] = answer
    return found


def _conclusion(row: AnyRow, site: TaskSite) -> ClaimAnswer | None:
    if row.failure_kind is None:
        here = row.verified and row.key_id == site.key_id
        return ClaimAnswer(ClaimState.KNOWN, row.cost) if here else None
    failure = FailureKind(row.failure_kind)
    if failure in _NOT_CONCLUSIVE or toolchain_key(row.toolchain) != site.toolchain:
        return None
    everywhere = row.key_id is None or failure in _BAD_ANYWHERE
    return ClaimAnswer(ClaimState.KNOWN, None, failure) if everywhere or row.key_id == site.key_id else None
