"""Routes for device events, leases, benchmarks, and the farm's numbers."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from tuner.records.db.types import utcnow
from tuner.records.errors import RecordNotFound
from tuner.records.paging import split_page
from webui import metrics as numbers
from webui.access import Admin
from webui.api.farm_models import (
    BenchResult,
    BenchResultPage,
    BenchRun,
    BenchRunPage,
    DeviceEvent,
    DeviceEventPage,
    Lease,
    LeasesReply,
    NewDeviceEvent,
)
from webui.api.params import After, Before, Id
from webui.api.replies import CHANGE_ERRORS, ERRORS
from webui.context import Ctx

router = APIRouter(tags=["farm"], responses=ERRORS)


@router.get("/device-events")
def device_events(
    context: Ctx,
    device: Annotated[str | None, Query(description="only this device's, by name")] = None,
    before: Before = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DeviceEventPage:
    """Health checks, quarantines and the like, latest first."""
    if device is not None:
        events = context.store.devices.events(device, limit)
        return DeviceEventPage(events=[DeviceEvent.of(e) for e in events], next=None)
    page, following = split_page(context.store.devices.newest_events(limit + 1, before), limit)
    return DeviceEventPage(events=[DeviceEvent.of(event) for event in page], next=following)


@router.post("/device-events", responses=CHANGE_ERRORS, status_code=201)
def add_device_event(context: Ctx, by: Admin, event: NewDeviceEvent) -> DeviceEvent:
    """Record an event of a device.
    A failed check puts its earlier measurements in doubt; `cleared` takes that back."""
    known = context.store.devices.named(event.device)
    if not known:
        raise RecordNotFound(f"there is no device {event.device!r} on record")
    data = {"by": by} if by else {}
    return DeviceEvent.of(context.store.devices.record_event(known[-1].id, event.kind, event.message, data=data))


@router.get("/leases")
def leases(context: Ctx) -> LeasesReply:
    """Who holds which device now, as the tracker says."""
    if not context.fleet.tracked:
        return LeasesReply(problem="the web app has no tracker", as_of=utcnow(), leases=[])
    view = context.fleet.view()
    held = [
        Lease(lease=d.lease, device=d.name, key=d.key, user=d.user or "", held_s=d.held_s)
        for d in view.devices
        if d.lease is not None
    ]
    return LeasesReply(problem=view.problem, as_of=view.as_of, leases=held)


@router.get("/benchmarks")
def benchmarks(context: Ctx, before: Before = None, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> BenchRunPage:
    """Benchmark runs, newest first."""
    page, following = split_page(context.store.benches.newest(limit + 1, before), limit)
    return BenchRunPage(runs=[BenchRun.of(run) for run in page], next=following)


@router.get("/benchmarks/{run_id}")
def benchmark(context: Ctx, run_id: Id) -> BenchRun:
    """One benchmark run."""
    return BenchRun.of(context.store.benches.get(run_id))


@router.get("/benchmarks/{run_id}/results")
def benchmark_results(
    context: Ctx, run_id: Id, after: After = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> BenchResultPage:
    """A benchmark run's results, in order."""
    context.store.benches.get(run_id)
    page, following = split_page(context.store.benches.results(run_id, after, limit + 1), limit, attrgetter("sequence"))
    return BenchResultPage(results=[BenchResult.of(result) for result in page], next=following)


@router.get("/benchmark-series")
def benchmark_series(
    context: Ctx,
    kernel: Annotated[str, Query(min_length=1, max_length=200)],
    device: Annotated[str, Query(min_length=1, max_length=200, description="a device's name")],
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> BenchResultPage:
    """The last results of one kernel on one device, oldest first."""
    found = context.store.benches.series(kernel, device, limit)
    return BenchResultPage(results=[BenchResult.of(result) for result in found], next=None)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(context: Ctx) -> Response:
    """The farm's numbers in Prometheus' text format; `/metrics` is the same."""
    return numbers.metrics(context)
