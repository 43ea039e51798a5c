"""Families: their list, and one of them with its picture of time over size."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from tuner.families.record import FamilyRecord
from tuner.families.rule import Explanation
from tuner.families.sizes import FamilyError
from tuner.records.paging import split_page
from webui.api.params import Before, Id
from webui.context import Ctx
from webui.pages.family_picture import family_picture, pick_text
from webui.pages.render import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_PAGE = 50


@router.get("/families")
def families(context: Ctx, before: Before = None) -> Response:
    page, following = split_page(context.store.families.newest(_PAGE + 1, before), _PAGE)
    return render(context, "families.html", "Families", families=page, before=before, next=following)


@router.get("/families/{family_id}")
def family(context: Ctx, family_id: Id, size: Annotated[str, Query(max_length=200)] = "") -> Response:
    found = context.store.families.get(family_id)
    record = FamilyRecord.from_json(found.record)
    explained, problem = _explained(record, size)
    return render(
        context, "family.html", "Families", family=found, record=record, picture=family_picture(record),
        texts=[pick_text(record, at) for at in range(len(record.sizes.sizes))], rule=record.rule_lines(), size=size,
        explained=explained, problem=problem,
    )  # fmt: skip


def _explained(record: FamilyRecord, text: str) -> tuple[Explanation | None, str]:
    """Return what the rule says of sizes a person typed, "17" or "56x28", or what is wrong with them."""
    if not text.strip():
        return None, ""
    try:
        size = tuple(int(word) for word in text.replace(",", "x").split("x"))
        return record.explain(size), ""
    except (ValueError, FamilyError) as error:
        return None, error.message if isinstance(error, FamilyError) else f"{text!r} is no size"
