"""Releases: their list, one of them, and what changed between two."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from tuner.records.farm.model_farm import ReleaseDiff, ReleaseEntry
from tuner.records.paging import split_page
from webui.api.params import Before
from webui.context import Ctx
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_PAGE = 30


@router.get("/releases")
def releases(context: Ctx, before: Before = None) -> Response:
    page, following = split_page(context.store.releases.newest(_PAGE + 1, before), _PAGE)
    return render(context, "releases.html", "Releases", releases=page, next=following, older_than=before)


@router.get("/releases/{name}")
def release(context: Ctx, name: str) -> Response:
    found = context.store.releases.get(name)
    entries = context.store.releases.entries(name)
    others = [other for other in context.store.releases.newest(_PAGE) if other.id != found.id]
    return render(context, "release.html", "Releases", release=found, entries=entries, others=others)


@router.get("/releases/{name}/diff")
def release_diff(context: Ctx, name: str, old: str) -> Response:
    diff = context.store.releases.diff(old, name)
    return render(context, "release_diff.html", "Releases", diff=diff, changes=changes_of(diff))


def changes_of(diff: ReleaseDiff) -> list[tuple[str, ReleaseEntry | None, ReleaseEntry | None]]:
    """Return what happened to each entry, with the entry before and after."""
    return [
        *(("changed", before, after) for before, after in diff.changed),
        *(("added", None, entry) for entry in diff.added),
        *(("removed", entry, None) for entry in diff.removed),
    ]
