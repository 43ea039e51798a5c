"""Benchmarks: their list, one of them, and the history of a kernel on a device."""

from __future__ import annotations

import numpy as np
from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from tuner.bench.changes import find_steps
from tuner.bench.history import lines_of
from tuner.bench.report import CallWork, summary
from tuner.records.errors import RecordNotFound
from tuner.records.paging import split_page
from webui.api.params import Before, Id
from webui.context import Ctx
from webui.pages.figures import series as series_figure
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_PAGE = 30
_POINTS = 120


@router.get("/benchmarks")
def benchmarks(context: Ctx, before: Before = None) -> Response:
    page, following = split_page(context.store.benches.newest(_PAGE + 1, before), _PAGE)
    return render(context, "benchmarks.html", "Benchmarks", runs=page, next=following, older_than=before)


@router.get("/benchmarks/series")
def benchmark_series(context: Ctx, kernel: str, device: str) -> Response:
    found = context.store.benches.series(kernel, device, _POINTS)
    if not found:
        raise RecordNotFound(f"nothing was measured of {kernel} on {device}")
    timed = [result for result in found if result.cost is not None]
    steps = find_steps(np.log([r.cost for r in timed if r.cost is not None])) if timed else ()
    return render(
        context, "benchmark_series.html", "Benchmarks", kernel=kernel, device=device, results=found[::-1],
        begins={timed[at].id for at in steps}, work=CallWork.of(kernel),
        picture=series_figure(timed, steps) if timed else None,
    )  # fmt: skip


@router.get("/benchmarks/{run_id}")
def benchmark(context: Ctx, run_id: Id) -> Response:
    found = context.store.benches.get(run_id)
    lines = lines_of(context.store, found)
    return render(context, "benchmark.html", "Benchmarks", run=found, lines=lines, told=summary(found, lines))
