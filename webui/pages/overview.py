"""The first page: the fleet, the newest runs and configs."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from tuner.records.model import RunState
from webui.context import Ctx
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/")
def overview(context: Ctx) -> Response:
    runs = context.store.runs.newest(limit=5)
    return render(
        context, "overview.html", "Overview", fleet=context.fleet.view(), runs=runs,
        running=sum(run.state is RunState.RUNNING for run in context.store.runs.newest(limit=50)),
        last_news=max((run.updated_at for run in runs if run.trials), default=None),
        configs=context.store.best.newest(5), filtered=False,
    )  # fmt: skip
