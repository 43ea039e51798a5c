"""Families: one function at many sizes, the configs chosen for it, and the rule that picks among them."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from compiler.target.target import Target
from tuner.families.family import FamilySpec
from tuner.families.stored import newest_family
from tuner.records.farm.model_farm import ReleaseEntry
from tuner.records.paging import split_page
from tuner.records.parts import families as parts
from tuner.records.store import RecordStore
from webui.api.params import Before, Id
from webui.api.replies import ERRORS, conditional
from webui.api.shown import ApiObject, Shown, shows
from webui.context import Ctx
from webui.errors import NoConfigError

router = APIRouter(tags=["families"], responses=ERRORS)

_KEY = re.compile(r"[0-9a-f]{64}")
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "you have it already"}}
_HINT = "tune it first, with `tunefarm tune FAMILY --shapes ...`"


@shows(parts.StoredFamily, renamed={"run_id": "run"}, without=("record",))
class Family(Shown):
    """`digest` is that of its record.
    `loss` is the time of its configs over each size's best, as a factor."""


@shows(parts.StoredFamily, only=("record",))
class FamilyDetail(Family):
    """A family with its whole record: sizes, configs, times and rule."""


class FamilyPage(ApiObject):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    families: list[Family]
    next: int | None


class FamilyReply(ApiObject):
    """The family to build with. `release` is the one that it was frozen in."""

    key: str
    name: str
    target: str
    device_class: str
    digest: str
    release: str | None
    record: dict[str, Any]


@router.get("/families")
def families(
    context: Ctx,
    before: Before = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    family: Annotated[str | None, Query(max_length=400, description="those of this family alone")] = None,
) -> FamilyPage:
    """Tuned families, newest first."""
    key = None if family is None else FamilySpec.parse(family).key
    page, following = split_page(context.store.families.newest(limit + 1, before, key), limit)
    return FamilyPage(families=[Family.of(family) for family in page], next=following)


@router.get("/families/best", response_model=FamilyReply, responses=_UNCHANGED)
def best_family(
    request: Request,
    context: Ctx,
    family: Annotated[
        str, Query(description="a workload with a name for a size, or a key", min_length=1, max_length=400)
    ],
    target: Annotated[str, Query(description="target string", min_length=1, max_length=4000)],
    device_class: Annotated[str | None, Query(description="only of this device class", max_length=400)] = None,
    release: Annotated[str | None, Query(description="as it is in this release", max_length=100)] = None,
) -> Response:
    """The newest record of a family for a target. The names of its sizes do not matter.

    A miss is an error of kind `no_config`.
    """
    is_key = _KEY.fullmatch(family)
    key, place = family if is_key else FamilySpec.parse(family).key, str(Target(target))
    found = _found(context.store, key, place, device_class or None, release)
    if found is None:
        where = f" in release {release}" if release else ""
        what = f"the family {family[:12]}" if is_key else str(FamilySpec.parse(family))
        raise NoConfigError(f"nobody has tuned {what} for {place}{where}", hint=_HINT, detail={"match": "miss"})
    return conditional(request, found)


@router.get("/families/{family_id}", response_model=FamilyDetail, responses=_UNCHANGED)
def family(request: Request, context: Ctx, family_id: Id) -> Response:
    """One family with its record."""
    found = context.store.families.get(family_id)
    return conditional(request, FamilyDetail.of(found))


def _found(
    store: RecordStore, key: str, target: str, device_class: str | None, release: str | None
) -> FamilyReply | None:
    found: ReleaseEntry | parts.StoredFamily
    if release is not None:
        entry = store.releases.look_up(release, key, target, device_class).config
        if entry is None or entry.target != target:
            return None
        found, name, record = entry, entry.workload_name, json.loads(entry.trace)
    else:
        kept = newest_family(store, key, target, device_class)
        if kept is None:
            return None
        found, name, record = kept, kept.name, kept.record
    return FamilyReply(
        key=key,
        name=name,
        target=found.target,
        device_class=found.device_class,
        digest=found.digest,
        release=release,
        record=dict(record),
    )
