"""Releases: frozen sets of configs that builds pin."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from starlette.responses import Response

from tuner.records.farm import release_files
from tuner.records.paging import split_page
from webui.access import Admin, Tuner
from webui.api.farm_models import NewRelease, Release, ReleaseDetail, ReleaseDiff, ReleaseEntry, ReleasePage
from webui.api.params import Before
from webui.api.replies import CHANGE_ERRORS, ERRORS, conditional, conditional_bytes
from webui.context import Ctx

router = APIRouter(tags=["releases"], responses=ERRORS)

Name = Annotated[str, Path(max_length=100)]
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "you have it already"}}


@router.get("/releases")
def releases(context: Ctx, before: Before = None, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> ReleasePage:
    """Releases, newest first."""
    page, following = split_page(context.store.releases.newest(limit + 1, before), limit)
    return ReleasePage(releases=[Release.of(release) for release in page], next=following)


@router.post("/releases", responses=CHANGE_ERRORS, status_code=201)
def create_release(context: Ctx, by: Tuner, new: NewRelease) -> Release:
    """Freeze the best configs there are now under a name."""
    made = context.store.releases.create(
        new.name,
        note=new.note,
        created_by=by,
        workloads=new.workloads,
        target=new.target,
        device_class=new.device_class,
        goal=new.objective,
    )
    return Release.of(made)


@router.post("/releases/import", responses=CHANGE_ERRORS, status_code=201)
def import_release(
    context: Ctx, by: Admin, file: Annotated[dict[str, Any], Body(description="what `/file` of a release gave")]
) -> Release:
    """Take in a release made elsewhere. It has to be approved here."""
    return Release.of(context.store.releases.take_in(release_files.load(json.dumps(file))))


@router.get("/releases/{name}", response_model=ReleaseDetail, responses=_UNCHANGED)
def release(request: Request, context: Ctx, name: Name) -> Response:
    """A release and its configs."""
    found = context.store.releases.get(name)
    configs = [ReleaseEntry.of(entry) for entry in context.store.releases.entries(name)]
    return conditional(request, ReleaseDetail.of(found, configs=configs))


@router.get("/releases/{name}/file", responses={**_UNCHANGED, 200: {"content": {"application/json": {}}}})
def release_file(request: Request, context: Ctx, name: Name) -> Response:
    """The release as one file, with a checksum."""
    text = release_files.dump(context.store.releases.get(name), context.store.releases.entries(name))
    return conditional_bytes(request, text.encode())


@router.get("/releases/{name}/diff")
def release_diff(
    context: Ctx, name: Name, since: Annotated[str, Query(max_length=100, description="the older release")]
) -> ReleaseDiff:
    """How a release differs from an older one."""
    return ReleaseDiff.of(context.store.releases.diff(since, name))


@router.post("/releases/{name}/approve", responses=CHANGE_ERRORS)
def approve_release(context: Ctx, by: Admin, name: Name) -> Release:
    """Let builds use a release."""
    return Release.of(context.store.releases.approve(name, by))
