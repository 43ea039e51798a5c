"""Workloads: their list, and one of them with its best configs and roofline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from tuner.kernels.peaks import class_peaks, least_bytes
from tuner.records.errors import RecordNotFound
from tuner.records.model import BestConfig
from tuner.records.paging import split_page
from tuner.records.store import RecordStore
from webui.api.params import After
from webui.context import Ctx
from webui.fleet import FleetDevice
from webui.format import speed
from webui.pages.figures import Achieved, Ceiling, Roofline, roofline
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_PAGE = 50


@router.get("/workloads")
def workloads(context: Ctx, after: After = 0) -> Response:
    page, following = split_page(context.store.workloads.page(after, _PAGE + 1), _PAGE)
    return render(context, "workloads.html", "Workloads", workloads=page, after=after, next=following)


@router.get("/workloads/{key}")
def workload(context: Ctx, key: str) -> Response:
    found = context.store.workloads.find(key)
    if found is None:
        raise RecordNotFound(f"there is no workload with key {key}")
    configs = sorted(context.store.best.page(limit=500, workload=key), key=lambda c: c.cost)
    bytes_moved = least_bytes(found.function) if found.function else None
    return render(
        context,
        "workload.html",
        "Workloads",
        workload=found,
        configs=configs,
        bytes_moved=bytes_moved,
        picture=_roofline(context.store, found.flops, bytes_moved, configs, context.fleet.view().devices),
    )


def _roofline(
    store: RecordStore,
    flops: float | None,
    bytes_moved: int | None,
    configs: Sequence[BestConfig],
    devices: Iterable[FleetDevice],
) -> Roofline | None:
    """Under the ceilings that profiles of models measured, else the tracker's checks.
    None without operations, bytes or ceilings."""
    if not flops or not bytes_moved:
        return None
    classes = {config.device_class for config in configs}
    ceilings = {d.device_class: c for d in devices if d.device_class in classes and (c := _ceiling(d)) is not None}
    for name in sorted(classes):
        if (peaks := class_peaks(store, name)) is not None:
            ceilings[name] = Ceiling(name, peaks.flops, peaks.bytes)
    achieved = [
        Achieved(c.device_class, speed(flops, c.cost), flops / c.cost) for c in configs if c.device_class in ceilings
    ]
    return roofline(flops / bytes_moved, list(ceilings.values()), achieved) if achieved else None


def _ceiling(device: FleetDevice) -> Ceiling | None:
    """All cores at what one reached in the device's last check."""
    scores = None if device.check is None else device.check.scores
    if scores is None or scores.compute <= 0 or scores.memory <= 0:
        return None
    return Ceiling(device.device_class, scores.compute * 1e9 * (device.cores or 1), scores.memory * 1e9)
