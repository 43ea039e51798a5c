"""All trials of the store, filtered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from tuner.records.model import TrialStatus
from tuner.records.runs.browse import Cursor, TrialFilter
from webui.api.params import LARGEST
from webui.api.replies import ERRORS
from webui.api.run_models import RecordPage, Trial
from webui.context import Ctx

router = APIRouter(tags=["records"], responses=ERRORS)


@router.get("/records")
def records(
    context: Ctx,
    workload: Annotated[str | None, Query(description="workload key or name", max_length=400)] = None,
    target: Annotated[str | None, Query(description="target string", max_length=4000)] = None,
    run: Annotated[int | None, Query(ge=1, le=LARGEST, description="only of this run")] = None,
    device_class: Annotated[str | None, Query(max_length=400)] = None,
    device: Annotated[str | None, Query(description="a device's name", max_length=200)] = None,
    status: Annotated[TrialStatus | None, Query(description="only such trials")] = None,
    suspect: Annotated[bool | None, Query(description="whether their device failed its next check")] = None,
    since: Annotated[datetime | None, Query(description="finished then or later")] = None,
    until: Annotated[datetime | None, Query(description="finished before then")] = None,
    after: Annotated[str, Query(description="`next` of the page before", max_length=50)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> RecordPage:
    """Trials of all runs, by run and number.
    A page may hold fewer than `limit` trials, even none, while there is a `next`: each looks at so many trials and
    no more."""
    wanted = TrialFilter(
        workload=workload, target=target, run=run, device_class=device_class, device=device, status=status,
        suspect=suspect, since=_aware(since), until=_aware(until),
    )  # fmt: skip
    found, cursor = context.store.trials.find(wanted, Cursor.parse(after) if after else None, limit)
    return RecordPage(trials=[Trial.of(trial) for trial in found], next=None if cursor is None else str(cursor))


def _aware(moment: datetime | None) -> datetime | None:
    """Times without a zone are in UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
