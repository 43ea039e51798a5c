"""Best configs: the lookup that build jobs depend on, and the list."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tuner.goals import Goal
from tuner.records.model import BestLookup
from tuner.records.paging import split_page
from tuner.records.store import RecordStore
from tuner.transfer.nearest import Question, best_or_nearest_of
from webui.api.best_models import Answer, Batch, BatchReply, BestReply, ExplainReply, RunnerUp
from webui.api.models import Config, ConfigPage
from webui.api.params import After, Id, Objective
from webui.api.replies import ERRORS, conditional
from webui.context import Context, Ctx
from webui.errors import BadRequest, NoConfigError
from webui.remembered import RememberedPart
from webui.scopes import check_release, scopes_of

router = APIRouter(tags=["best"], responses=ERRORS)

_OTHERS = 50

Workload = Annotated[str, Query(description="workload key, sha256 in hex", min_length=1, max_length=64)]
Target = Annotated[str, Query(description="target string", min_length=1, max_length=4000)]
DeviceClass = Annotated[
    str | None, Query(description="device class; without it, only the exact target will do", max_length=400)
]
Toolchain = Annotated[str | None, Query(description="toolchain key; the newest without it", max_length=200)]
Nearest = Annotated[bool, Query(description="on a miss, adapt the config of the nearest workload")]


@router.get("/best", response_model=BestReply, responses={304: {"description": "you have it already"}})
def best(
    request: Request, context: Ctx, workload: Workload, target: Target, device_class: DeviceClass = None,
    toolchain: Toolchain = None, nearest: Nearest = True, objective: Objective = Goal.TIME,
) -> Response:  # fmt: skip
    """The best config for a workload on a target, with why it is the one.

    A miss is an error of kind `no_config`, whose `detail.explain` says what there is instead.
    """
    [found] = _find(context.store, [Question(workload)], target, device_class, toolchain, nearest, objective)
    if found.config is None:
        raise NoConfigError(
            found.explain[0],
            hint="tune it first, with `tunefarm tune`",
            detail={"match": "miss", "explain": list(found.explain)},
        )
    return conditional(request, BestReply.of(found))


def _find(
    store: RecordStore, asked: Sequence[Question], target: str, device_class: str | None, toolchain: str | None,
    nearest: bool, goal: Goal,
) -> list[BestLookup]:  # fmt: skip
    place = target, device_class or None, toolchain or None
    if nearest:
        return best_or_nearest_of(store, asked, *place, goal)
    found = store.best.look_up_all({question.workload for question in asked}, *place, goal)
    return [found[question.workload] for question in asked]


@router.post("/best/batch", response_model=BatchReply)
async def best_batch(request: Request, context: Ctx, batch: Batch) -> Response:
    """The best configs of many workloads on one target. A miss is an answer here, not an error."""
    check_release(scopes_of(request), batch.release)
    if batch.release is not None and batch.objective is not Goal.TIME:
        raise BadRequest("the configs of a release are chosen already", hint="leave the release or the objective out")
    if batch.release is not None:
        parts = await run_in_threadpool(_released, context.store, batch, batch.release)
    else:
        parts = await _remembered(context, batch)
    misses = sum(part.miss for part in parts)
    body = b'{"answers":[%b],"misses":%d}' % (b",".join(part.text for part in parts), misses)
    return Response(body, media_type="application/json")


async def _remembered(context: Context, batch: Batch) -> list[RememberedPart]:
    """Answer from earlier answers, and look the rest up in the store at once."""
    place = batch.target, batch.device_class, batch.toolchain, batch.nearest, batch.objective
    if batch.objective is not Goal.TIME:  # the mark of what was answered before does not tell of new trials
        asked = [Question(q.workload, q.function) for q in batch.lookups]
        found = await run_in_threadpool(_find, context.store, asked, *place)
        return [_part(Answer.of(q.workload, answer)) for q, answer in zip(asked, found, strict=True)]
    keys = [(q.workload, q.function and blake2b(q.function.encode()).digest(), *place) for q in batch.lookups]
    mark = await context.freshness.mark()
    parts = {key: context.parts.get(key, mark) for key in keys}
    missing = {key: Question(q.workload, q.function) for key, q in zip(keys, batch.lookups) if parts[key] is None}
    if missing:
        found = await run_in_threadpool(_find, context.store, list(missing.values()), *place)
        for key, answer in zip(missing, found):
            parts[key] = made = _part(Answer.of(key[0], answer))
            context.parts.keep(key, mark, made, made.size)
    return [part for key in keys if (part := parts[key]) is not None]


def _released(store: RecordStore, batch: Batch, release: str) -> list[RememberedPart]:
    place = batch.target, batch.device_class or None, batch.toolchain or None
    return [_part(Answer.of(q.workload, store.releases.look_up(release, q.workload, *place))) for q in batch.lookups]


def _part(answer: Answer) -> RememberedPart:
    return RememberedPart(answer.model_dump_json().encode(), answer.match == "miss")


@router.get("/explain")
def explain(
    context: Ctx, workload: Workload, target: Target, device_class: DeviceClass = None, toolchain: Toolchain = None,
    objective: Objective = Goal.TIME,
) -> ExplainReply:  # fmt: skip
    """Why a lookup has this answer: what matched, how sure it is, and what else there is."""
    store = context.store
    found = store.best.look_up(workload, target, device_class or None, toolchain or None, objective)
    runners = () if found.config is None else store.best.runners_up(found.config)
    ties = sum(r.verdict == "tie" for r in runners)
    lines = list(found.explain)
    if ties:
        lines.append(f"{ties} other candidate{'s' if ties > 1 else ''} cannot be told from it: the intervals overlap")
    others = [c for c in store.best.page(limit=_OTHERS, workload=workload, goal=objective) if c != found.config]
    return ExplainReply(
        match=found.match,
        explain=lines,
        config=None if found.config is None else Config.of(found.config),
        runners_up=[RunnerUp.of(r) for r in runners],
        ties=ties,
        others=[Config.of(c) for c in others],
    )


@router.get("/best-configs")
def best_configs(
    context: Ctx, workload: Annotated[str | None, Query(description="workload key or name")] = None,
    target: Annotated[str | None, Query(description="target string")] = None,
    device_class: Annotated[str | None, Query(description="device class")] = None, after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100, objective: Objective = Goal.TIME,
) -> ConfigPage:  # fmt: skip
    """Best configs of every workload, target, device class and toolchain."""
    found = context.store.best.page(
        after, limit + 1, workload=workload, target=target, device_class=device_class, goal=objective
    )
    page, following = split_page(found, limit)
    return ConfigPage(configs=[Config.of(config) for config in page], next=following)


@router.get("/best-configs/{config_id}", response_model=Config)
def best_config(request: Request, context: Ctx, config_id: Id, objective: Objective = Goal.TIME) -> Response:
    """One best config. Its id stays when another candidate takes its place."""
    return conditional(request, Config.of(context.store.best.get(config_id, objective)))
