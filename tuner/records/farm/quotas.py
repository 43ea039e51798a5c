"""Quotas of a user: device hours and trials within some days, and runs at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from tuner.number_text import counted, hours
from tuner.records.db.schema import RunRow
from tuner.records.db.schema_farm import QuotaRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, QuotaExceeded, RecordNotFound
from tuner.records.facts import of_row
from tuner.records.model import RunState

EVERYONE = "*"
"""The user whose quota everyone has who has none of their own."""
_QUOTAS = select(*QuotaRow.__table__.columns)
_MOST_HOURS = 1e6
_MOST = 10**12
_MOST_DAYS = 3660


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A user's quota; None is as many as they like.
    `device_hours` that devices were held and `trials` within the last `days`, and `runs` at the same time. `user`
    "*" is everyone who has no quota of their own."""

    user: str
    device_hours: float | None = None
    trials: int | None = None
    runs: int | None = None
    days: int = 30
    set_by: str = ""
    set_at: datetime | None = None

    def __post_init__(self) -> None:
        if not self.user or len(self.user) > 100:
            raise InvalidRecord("a user's name has 1 to 100 characters")
        if self.device_hours is not None and not 0 <= self.device_hours <= _MOST_HOURS:
            raise InvalidRecord(f"device hours are 0 to {_MOST_HOURS:g}")
        for name, value in (("trials", self.trials), ("runs", self.runs)):
            if value is not None and not 0 <= value <= _MOST:
                raise InvalidRecord(f"{name} are 0 to {_MOST}")
        if not 1 <= self.days <= _MOST_DAYS:
            raise InvalidRecord(f"days are 1 to {_MOST_DAYS}")
        if self.device_hours is None and self.trials is None and self.runs is None:
            raise InvalidRecord("a quota limits something", hint="device hours, trials or runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """A user's use of a quota within its days, and the runs that go on now."""

    device_hours: float
    trials: int
    runs: int


def put(connection: Connection, quota: Quota, by: str) -> Quota:
    """Set a user's quota, in place of the one there was."""
    values = {
        "device_hours": quota.device_hours, "trials": quota.trials, "runs": quota.runs, "days": quota.days,
        "set_by": by, "set_at": utcnow(),
    }  # fmt: skip
    if _row(connection, quota.user) is None:
        connection.execute(insert(QuotaRow), {"user": quota.user, **values})
    else:
        connection.execute(update(QuotaRow).where(QuotaRow.user == quota.user).values(**values))
    row = _row(connection, quota.user)
    assert row is not None
    return _quota(row)


def remove(connection: Connection, user: str) -> None:
    """Take a user's quota away. Raises RecordNotFound."""
    if _row(connection, user) is None:
        raise RecordNotFound(f"{user} has no quota of their own", hint="list them with `tunefarm quota list`")
    connection.execute(delete(QuotaRow).where(QuotaRow.user == user))


def all_quotas(connection: Connection, limit: int) -> tuple[Quota, ...]:
    """All quotas, by user."""
    return tuple(_quota(row) for row in connection.execute(_QUOTAS.order_by(QuotaRow.user).limit(limit)))


def quota_of(connection: Connection, user: str) -> Quota | None:
    """The quota that counts for a user: their own, else everyone's."""
    row = _row(connection, user) or _row(connection, EVERYONE)
    return None if row is None else _quota(row)


def taken(connection: Connection, user: str, days: int, besides: int | None = None) -> QuotaUse:
    """A user's use within so many days. `besides` is a run that does not count as running."""
    now = utcnow()
    mine = and_(RunRow.user == user, RunRow.started_at >= now - timedelta(days=days))
    trials = connection.scalar(select(func.coalesce(func.sum(RunRow.trials), 0)).where(mine))
    seconds = connection.scalar(select(func.coalesce(func.sum(RunRow.held_s), 0.0)).where(mine))
    going = or_(
        RunRow.state == str(RunState.QUEUED),
        and_(RunRow.state == str(RunState.RUNNING), or_(RunRow.owned_until.is_(None), RunRow.owned_until > now)),
    )
    others = mine if besides is None else and_(mine, RunRow.id != besides)
    runs = connection.scalar(select(func.count()).select_from(RunRow).where(others, going))
    return QuotaUse(device_hours=float(seconds or 0.0) / 3600, trials=int(trials or 0), runs=int(runs or 0))


def check(connection: Connection, user: str, trials: int, run_id: int | None = None) -> None:
    """Raise QuotaExceeded when a user may not begin a run of so many trials, or go on with an ended one."""
    if (row := _row(connection, user, lock=True) or _row(connection, EVERYONE, lock=True)) is None:
        return
    quota = _quota(row)
    has = taken(connection, user, quota.days, run_id)
    window = f"within {counted(quota.days, 'day')}"
    problem = ""
    if quota.runs is not None and has.runs >= quota.runs:
        problem = f"{user} has {counted(has.runs, 'run')} going on, and the quota is {quota.runs} at the same time"
    elif quota.trials is not None and has.trials + trials > quota.trials:
        had = counted(has.trials, "trial")
        problem = f"{user} has had {had} {window} and asks for {trials}; the quota is {quota.trials}"
    elif quota.device_hours is not None and has.device_hours >= quota.device_hours:
        had, limit = hours(has.device_hours), hours(quota.device_hours)
        problem = f"{user} has had {had} device hours {window}; the quota is {limit}"
    if problem:
        hint = "an admin changes it: tunefarm quota set; `tunefarm quota list` shows what is left"
        raise QuotaExceeded(problem, hint=hint)


def _row(connection: Connection, user: str, lock: bool = False) -> AnyRow | None:
    """A quota. With `lock`, runs begun at the same time wait for it."""
    query = _QUOTAS.where(QuotaRow.user == user)
    return connection.execute(query.with_for_update() if lock else query).first()


def _quota(row: AnyRow) -> Quota:
    return of_row(Quota, row)
