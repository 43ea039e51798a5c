"""The checks of every request before a route sees it.

Host, origin, token; and the headers of every reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from compiler.errors import TunefarmError
from tuner.records.farm.model_farm import Role
from webui.access import Access, check_role, needed_role
from webui.errors import BadRequest, Forbidden, TooLarge
from webui.scopes import check_scopes

MOST_BYTES = {Role.READ: 8 << 20, Role.TUNE: 8 << 20, Role.ADMIN: 256 << 20}
"""Of a request's body, by the role that sends it."""
BODY_S = 60.0
"""How long a body may take to come."""
ErrorPage = Callable[[Request, Exception], ASGIApp]
"""Makes the response that tells a client of an error."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SECURITY = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class RequestGuard:
    """`hosts`: names that a request's Host may have; None allows all.
    On loopback this keeps a foreign web page from reading the app by pointing its own name at 127.0.0.1. `access`
    says what a request may do. It is checked before any of the body is read, by what the route, in one of `routers`,
    asks for with `webui.access.needs`."""

    def __init__(
        self, app: ASGIApp, hosts: Collection[str] | None, access: Access, error_page: ErrorPage,
        routers: Sequence[tuple[str, APIRouter]],
    ) -> None:  # fmt: skip
        self._app = app
        self._routers = routers
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._access = access
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        headers = Headers(scope=scope)
        body = _Body(receive, headers)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                added = [pair for pair in _SECURITY if pair[0] not in given]
                if body.left_over:
                    added.append((b"connection", b"close"))  # nobody reads the rest
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        app = self._app
        try:
            self._check_origin(scope["method"], headers)
            address = scope["client"][0] if scope.get("client") else ""
            role, name, scopes = await self._access.role(headers.get("authorization", ""), address)
            scope["tunefarm_role"], scope["tunefarm_name"], scope["tunefarm_scopes"] = role, name, scopes
            check_scopes(scopes, scope["path"], Request(scope).query_params)
            check_role(needed_role(self._routers, scope), role)
            body.allow(MOST_BYTES[role])
        except TunefarmError as refusal:
            app = self._error_page(Request(scope), refusal)
        await app(scope, body.receive, send_guarded)

    def _check_origin(self, method: str, headers: Headers) -> None:
        """Raise BadRequest for another host's name, Forbidden for a change from another site's page.
        The browser would send it with the credentials of whoever looks at that page."""
        host = _host_name(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            raise BadRequest(f"this app does not answer to the name {host!r}", hint=f"use {sorted(self._hosts)[0]}")
        if method in ("GET", "HEAD", "OPTIONS"):
            return
        origin = headers.get("origin", "")
        elsewhere = bool(origin) and origin.partition("://")[2].lower() != headers.get("host", "").lower()
        if elsewhere or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Forbidden("a page of another site may not change anything here")


class _Body:
    """A request's body as it is taken: so many bytes at most, in time.
    `left_over`: some of it was not taken."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        self._told = headers.get("content-length", "")
        self.left_over = self._told not in ("", "0") or "transfer-encoding" in headers
        self._left = self._most = 0
        self._whole = False
        self._deadline = asyncio.get_running_loop().time() + BODY_S

    def allow(self, most: int) -> None:
        """Raise TooLarge for one that is announced to be larger."""
        self._left = self._most = most
        if self._told.isdecimal() and int(self._told) > most:
            raise TooLarge(_too_large(most))

    async def receive(self) -> Message:
        if self._whole:  # what still comes is the end of the connection, any time
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413, _too_large(self._most))
        if not message.get("more_body", False):
            self._whole, self.left_over = True, False
        return message


def _too_large(most: int) -> str:
    return f"the request is larger than {most >> 20} MiB, the most your token's role may send"


def _host_name(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()
