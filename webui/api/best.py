"""Best configs: the lookup that build jobs depend on, and the list."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from webui.api.models import BestReply, Config, ConfigPage
from webui.api.replies import ERRORS, conditional
from webui.context import Ctx
from webui.errors import NoConfigError

router = APIRouter(tags=["best"], responses=ERRORS)

_WORKLOAD = "workload key, sha256 in hex"
_CLASS = "device class; without it, only the exact target will do"


@router.get("/best", response_model=BestReply, responses={304: {"description": "you have it already"}})
def best(
    request: Request,
    context: Ctx,
    workload: Annotated[str, Query(description=_WORKLOAD, min_length=1, max_length=64)],
    target: Annotated[str, Query(description="target string", min_length=1, max_length=4000)],
    device_class: Annotated[str | None, Query(description=_CLASS)] = None,
    toolchain: Annotated[str | None, Query(description="toolchain key; the newest without it")] = None,
) -> Response:
    """The best config for a workload on a target, with why it is the one.

    A miss is an error of kind `no_config`, whose `detail.explain` says what there is instead.
    """
    found = context.store.best(workload, target, device_class or None, toolchain or None)
    if found.config is None or found.match == "miss":
        raise NoConfigError(
            found.explain[0],
            hint="tune it first, with `tunefarm tune`",
            detail={"match": "miss", "explain": list(found.explain)},
        )
    return conditional(
        request, BestReply(match=found.match, explain=list(found.explain), config=Config.of(found.config))
    )


@router.get("/best-configs")
def best_configs(
    context: Ctx,
    workload: Annotated[str | None, Query(description="workload key or name")] = None,
    target: Annotated[str | None, Query(description="target string")] = None,
    device_class: Annotated[str | None, Query(description="device class")] = None,
    after: Annotated[int, Query(ge=0, description="`next` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ConfigPage:
    """Best configs of every workload, target, device class and toolchain."""
    found = context.store.best_configs(after, limit + 1, workload=workload, target=target, device_class=device_class)
    configs = [Config.of(config) for config in found[:limit]]
    return ConfigPage(configs=configs, next=configs[-1].id if len(found) > limit else None)


@router.get("/best-configs/{config_id}", response_model=Config)
def best_config(request: Request, context: Ctx, config_id: int) -> Response:
    """One best config. Its id stays when a faster candidate takes its place."""
    return conditional(request, Config.of(context.store.best_config(config_id)))
