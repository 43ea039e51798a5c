"""Turning errors into replies, and replies into conditional ones."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from compiler.errors import TargetError, TunefarmError
from tracker.capability import CapabilityError
from tuner.errors import TuningError
from tuner.records.errors import InvalidRecord, QuotaExceeded, RecordNotFound, RunBusy, StoreUnavailable
from webui.api.models import ErrorBody, ErrorReply
from webui.errors import (
    BadRequest,
    Forbidden,
    NoConfigError,
    NoLauncher,
    TooLarge,
    TooManyFailures,
    TooManyStreams,
    Unauthorised,
)

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[TunefarmError], int], ...] = (
    (NoConfigError, 404),
    (RecordNotFound, 404),
    (BadRequest, 400),
    (InvalidRecord, 400),
    (TargetError, 400),
    (TuningError, 400),
    (CapabilityError, 400),
    (Unauthorised, 401),
    (Forbidden, 403),
    (QuotaExceeded, 429),
    (RunBusy, 409),
    (NoLauncher, 409),
    (TooManyFailures, 429),
    (TooManyStreams, 429),
    (TooLarge, 413),
    (StoreUnavailable, 503),
)

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorReply, "description": "a parameter is wrong"},
    401: {"model": ErrorReply, "description": "a token is needed, or another one"},
    404: {"model": ErrorReply, "description": "there is no such thing"},
    429: {"model": ErrorReply, "description": "too many wrong tokens came from this address, or a quota is used up"},
    503: {"model": ErrorReply, "description": "the record store does not answer"},
}
"""What any route may answer besides its own reply, for OpenAPI."""
CHANGE_ERRORS: dict[int | str, dict[str, Any]] = {
    403: {"model": ErrorReply, "description": "the token's role does not allow it"},
    409: {"model": ErrorReply, "description": "not as things are now"},
}
"""And what one that changes something may."""


def status_of(error: TunefarmError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def body_of(error: Exception) -> tuple[int, ErrorBody]:
    """The status and body that tell a client of `error`."""
    match error:
        case TunefarmError():
            body = ErrorBody(kind=error.kind, message=error.message, hint=error.hint, detail=_plain(error.detail))
            return status_of(error), body
        case RequestValidationError():
            problems = [_problem(entry) for entry in error.errors()]
            return 400, ErrorBody(kind="bad_request", message="; ".join(problems))
        case HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            kind = phrase.lower().replace(" ", "_")
            message = error.detail if error.detail != phrase else _PHRASES.get(error.status_code, phrase)
            return error.status_code, ErrorBody(kind=kind, message=message)
        case _:
            message = f"the web app failed: {type(error).__name__}"
            return 500, ErrorBody(kind="internal", message=message, hint="its log says more")


_PHRASES = {404: "there is no such page", 405: "this address does not take that method"}


def _problem(entry: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in entry["loc"] if part not in ("query", "path", "body"))
    return f"{where}: {entry['msg'].lower()}"


def _plain(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value if isinstance(value, str | int | float | list | None) else str(value)
        for key, value in detail.items()
    }


def error_response(error: Exception) -> JSONResponse:
    status, body = body_of(error)
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="tunefarm"'
    if isinstance(error, TooManyFailures):
        headers["Retry-After"] = str(math.ceil(error.detail["wait_s"]))
    return JSONResponse(ErrorReply(error=body).model_dump(), status, headers)


def conditional(request: Request, reply: BaseModel) -> Response:
    """`reply` with an ETag; 304 without a body when the client has that already."""
    return conditional_bytes(request, reply.model_dump_json().encode())


def conditional_bytes(request: Request, body: bytes) -> Response:
    """The same of JSON that is made already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if has_tag(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def has_tag(given: str, tag: str) -> bool:
    """Whether an If-None-Match header names `tag`."""
    known = {entry.strip().removeprefix("W/") for entry in given.split(",")}
    return tag in known or "*" in known


def log_failure(request: Request, error: Exception) -> None:
    """Errors that are the app's own fault go into its log in full."""
    if body_of(error)[0] >= 500 and not isinstance(error, HTTPException):
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
