"""Workloads, devices and health."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tuner.records.errors import RecordNotFound
from tuner.records.paging import split_page
from webui.api.models import DevicesReply, Health, Workload, WorkloadDetail, WorkloadPage
from webui.api.params import After
from webui.api.replies import ERRORS, conditional
from webui.context import Ctx

router = APIRouter(tags=["catalog"], responses=ERRORS)


@router.get("/workloads")
def workloads(
    context: Ctx,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    called: Annotated[
        str | None, Query(max_length=500, description="only those of this name, or whose key begins so (8 digits)")
    ] = None,
) -> WorkloadPage:
    """Workloads that were ever tuned, in the order they were first seen."""
    if called is not None:
        return WorkloadPage(
            workloads=[Workload.of(w) for w in context.store.workloads.called(called, limit)], next=None
        )
    page, following = split_page(context.store.workloads.page(after, limit + 1), limit)
    return WorkloadPage(workloads=[Workload.of(workload) for workload in page], next=following)


@router.get("/workloads/{key}", response_model=WorkloadDetail)
def workload(request: Request, context: Ctx, key: str) -> Response:
    """One workload with the text of its function, and the file it comes from."""
    found = context.store.workloads.find(key)
    if found is None:
        raise RecordNotFound(f"there is no workload with key {key}")
    return conditional(request, WorkloadDetail.of(found, source=context.store.workloads.source(key)))


@router.get("/devices")
def devices(context: Ctx) -> DevicesReply:
    """The fleet: live from the tracker, or as recorded when there is none or it is away."""
    return DevicesReply.of(context.fleet.view())


@router.get("/health")
def health(context: Ctx) -> Health:
    """Whether the app can answer: 503 when the record store cannot."""
    context.store.runs.newest(limit=1)
    view = context.fleet.view()
    return Health(
        status="ok",
        version=context.version,
        store=context.store.address,
        tracker="none" if not context.fleet.tracked else "away" if view.problem else "ok",
        tracker_problem=view.problem,
    )
