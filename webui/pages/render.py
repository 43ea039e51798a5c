"""A page from its template and what every page has."""

from __future__ import annotations

from typing import Any

from starlette.responses import HTMLResponse

from tuner.records.db.types import utcnow
from webui.context import Context
from webui.pages.templates import ENVIRONMENT


def render(context: Context, template: str, section: str = "", **values: Any) -> HTMLResponse:
    """`section` is the entry of the navigation that the page belongs to."""
    text = ENVIRONMENT.get_template(template).render(
        now=utcnow(), version=context.version, store=context.store.address, section=section, **values
    )
    return HTMLResponse(text, headers={"Cache-Control": "no-store"})
