"""What every request passes before a route sees it: host, origin, token, and what every reply carries."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from compiler.errors import TunefarmError
from webui.access import Access
from webui.errors import BadRequest, Forbidden

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


class Guard:
    """`hosts`: names a request's Host may have; None allows all. On loopback this keeps a web page elsewhere from
    reading the app by pointing its own name at 127.0.0.1. `access` says what a request may do; routes that change
    something ask for it with `webui.access.needs`."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, access: Access, error_page: ErrorPage) -> None:
        self._app = app
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._access = access
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                added = [pair for pair in _SECURITY if pair[0] not in given]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        headers = Headers(scope=scope)
        app = self._app
        try:
            self._check_origin(scope["method"], headers)
            address = scope["client"][0] if scope.get("client") else ""
            role, name = await self._access.role(headers.get("authorization", ""), address)
            scope["tunefarm_role"], scope["tunefarm_name"] = role, name
        except TunefarmError as refusal:
            app = self._error_page(Request(scope), refusal)
        await app(scope, receive, send_guarded)

    def _check_origin(self, method: str, headers: Headers) -> None:
        """Raises BadRequest for another host's name, Forbidden for a change that a page of another site asks for: the
        browser would send it with the credentials of whoever looks at that page."""
        host = _host_name(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            raise BadRequest(f"this app is not called {host!r}", hint=f"use {sorted(self._hosts)[0]}")
        if method in ("GET", "HEAD", "OPTIONS"):
            return
        origin = headers.get("origin", "")
        elsewhere = bool(origin) and origin.partition("://")[2].lower() != headers.get("host", "").lower()
        if elsewhere or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Forbidden("a page of another site may not change anything here")


def _host_name(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()
