"""Best configs: their list, and one of them."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from tuner.goals import Goal
from tuner.records.paging import split_page
from webui.api.params import After, Id, Objective
from webui.context import Ctx
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_CONFIGS = 50


@router.get("/best")
def configs(
    context: Ctx, workload: str = "", target: str = "", device_class: str = "", after: After = 0,
    objective: Objective = Goal.TIME,
) -> Response:  # fmt: skip
    given = {"workload": workload.strip(), "target": target.strip(), "device_class": device_class.strip()}
    filters = {name: value for name, value in given.items() if value}
    found = context.store.best.page(
        after,
        _CONFIGS + 1,
        workload=filters.get("workload"),
        target=filters.get("target"),
        device_class=filters.get("device_class"),
        goal=objective,
    )
    page, following = split_page(found, _CONFIGS)
    asked = filters if objective is Goal.TIME else {**filters, "objective": str(objective)}
    return render(
        context, "configs.html", "Best configs", configs=page, next=following, after=after, query=urlencode(asked),
        filtered=bool(asked), objective=str(objective), targets=[t.text for t in context.store.targets.page(limit=200)],
        device_classes=context.store.devices.classes(limit=200), **given,
    )  # fmt: skip


@router.get("/best/{config_id}")
def config(context: Ctx, request: Request, config_id: Id, objective: Objective = Goal.TIME) -> Response:
    found = context.store.best.get(config_id, objective)
    asked = {"workload": found.workload_key, "target": found.target, "device_class": found.device_class}
    if objective is not Goal.TIME:
        asked["objective"] = str(objective)
    return render(
        context,
        "config.html",
        "Best configs",
        config=found,
        workload=context.store.workloads.find(found.workload_key),
        base_url=str(request.base_url).rstrip("/"),
        asked=urlencode(asked),
    )
