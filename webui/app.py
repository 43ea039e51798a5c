"""The web app: API, pages and static files on a record store and, perhaps, a tracker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from compiler.errors import TunefarmError
from tuner.records.farm.model_farm import Role
from tuner.records.store import RecordStore
from webui import export, metrics
from webui.access import Access, Limit
from webui.api import (
    best,
    catalog,
    events,
    families,
    farm,
    limits,
    model_events,
    model_routes,
    records,
    releases,
    run_changes,
    runs,
)
from webui.api.replies import error_response, log_failure
from webui.check_log import CheckLog
from webui.context import Context
from webui.fleet import DeviceSource, FleetWatch
from webui.launcher import Launcher, LeftRuns
from webui.pages.render import error_page
from webui.pages.table import PAGES
from webui.remembered import Freshness, Remembered
from webui.serving.guard import RequestGuard
from webui.serving.limits import Streams

_STATIC = Path(__file__).parent / "static"
_API = (
    best.router,
    runs.router,
    run_changes.router,
    events.router,
    records.router,
    releases.router,
    families.router,
    catalog.router,
    model_routes.router,
    model_events.router,
    farm.router,
    limits.router,
)


def create_app(
    store: RecordStore, tracker: DeviceSource | None = None, *, hosts: Collection[str] | None = None,
    tokens: Collection[str] = (), open_role: Role | None = Role.ADMIN, launcher: Launcher | None = None,
    stopping: Callable[[], bool] = lambda: False, limit: Limit | None = None, streams: Streams | None = None,
    writes_checks: bool = True,
) -> FastAPI:  # fmt: skip
    """The app over an open store. It closes neither the store nor the tracker.

    `hosts` are the names it answers to (None: any). `open_role` is what a request without a token may do. None: every
    request needs one, of the store's or of `tokens`, which may read. When there are any of those, every request does.
    `launcher` starts the runs that clients ask for; `stopping` tells live streams that the server is about to end.
    `limit` counts wrong tokens, and `streams` live streams. `writes_checks` says whether to write the tracker's health
    checks down: of several apps on one socket, one does.
    """
    fleet = FleetWatch(store, tracker)
    access = Access(store, tokens, None if tokens else open_role, limit)
    freshness = Freshness(store.best.watch())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        checks = CheckLog(store, tracker) if tracker is not None and writes_checks else None
        left = LeftRuns(store)
        if checks is not None:
            checks.start()
        left.start()
        yield
        left.stop()
        if checks is not None:
            checks.stop()
        fleet.close()

    app = FastAPI(
        title="tunefarm",
        version=_version(),
        description="Best configs, runs and devices of a tunefarm.",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        lifespan=lifespan,
    )
    app.state.context = Context(
        store=store,
        freshness=freshness,
        fleet=fleet,
        version=_version(),
        stopping=stopping,
        launcher=launcher,
        streams=streams or Streams(),
    )
    routers = [("/api/v1", router) for router in _API]
    routers += [("", router) for router in (metrics.router, *(page.load() for page in PAGES), export.router)]
    for prefix, router in routers:
        app.include_router(router, prefix=prefix)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    for kind in (TunefarmError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _on_error)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_middleware(Remembered, freshness=freshness)
    app.add_middleware(RequestGuard, hosts=hosts, access=access, error_page=_error_page, routers=routers)
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The API's description, without the 422 replies FastAPI adds: wrong parameters are answered with 400."""
    if app.openapi_schema is None:
        spec = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for methods in spec["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            spec["components"]["schemas"].pop(unused, None)
        app.openapi_schema = spec
    return app.openapi_schema


def _version() -> str:
    try:
        return version("tunefarm")
    except PackageNotFoundError:
        return "0+unknown"


async def _on_error(request: Request, error: Exception) -> Response:
    log_failure(request, error)
    return _error_page(request, error)


def _error_page(request: Request, error: Exception) -> Response:
    """JSON for programs, a page for people."""
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return error_response(error)
    return error_page(request, error)
