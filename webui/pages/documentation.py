"""The documentation, as `make docs` built it into webui/site: served from disk, without network."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from webui.context import Ctx
from webui.pages.render import render

SITE = Path(__file__).parents[1] / "site"
"""What `make docs` writes. A wheel that is made after it has the pages too."""

router = APIRouter()


@router.get("/docs", include_in_schema=False)
def documentation() -> Response:
    """Lead to the first page, whose links are relative to it."""
    return RedirectResponse("/docs/")


@router.get("/docs/{path:path}", include_in_schema=False)
async def documentation_file(context: Ctx, request: Request, path: str) -> Response:
    """A file of the site, or a page that says how to build it."""
    if not (SITE / "index.html").is_file():
        missing = render(context, "documentation.html", "Docs")
        missing.status_code = 404
        return missing
    return await StaticFiles(directory=SITE, html=True).get_response(path or ".", request.scope)
