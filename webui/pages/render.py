"""A page from its template and the parts that every page has, and the page of errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from tuner.records.db.types import utcnow
from webui.api.replies import body_of
from webui.context import Context
from webui.pages.table import navigation
from webui.pages.templates import ENVIRONMENT


def render(context: Context, template: str, section: str = "", **values: Any) -> HTMLResponse:
    """`section` is the entry of the navigation that the page belongs to."""
    text = ENVIRONMENT.get_template(template).render(
        now=utcnow(),
        version=context.version,
        store=context.store.address,
        section=section,
        navigation=navigation(),
        **values,
    )
    return HTMLResponse(text, headers={"Cache-Control": "no-store"})


def error_page(request: Request, error: Exception) -> Response:
    """A page that says what `error` says."""
    status, body = body_of(error)
    context: Context = request.app.state.context
    response = render(context, "error.html", status=status, heading=HTTPStatus(status).phrase, body=body)
    response.status_code = status
    if status == 401:
        response.headers["WWW-Authenticate"] = 'Basic realm="tunefarm"'
    return response
