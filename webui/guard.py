"""What every request passes before a route sees it: host, token, and what every reply carries."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Collection

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webui.errors import BadRequest, Unauthorised

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


class Guard:
    """`hosts`: names a request's Host may have; None allows all. On loopback this keeps a web page elsewhere from
    reading the app by pointing its own name at 127.0.0.1. `tokens`: with any, a request needs one, as bearer
    token or as the password of basic authentication (which browsers ask for by themselves)."""

    def __init__(
        self, app: ASGIApp, hosts: Collection[str] | None, tokens: Collection[str], error_page: ErrorPage
    ) -> None:
        self._app = app
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._tokens = [_digest(token) for token in tokens]
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        app = self._app if refusal is None else self._error_page(Request(scope), refusal)
        await app(scope, receive, send_guarded)

    def _refusal(self, headers: Headers) -> Exception | None:
        host = _host_name(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            return BadRequest(f"this app is not called {host!r}", hint=f"use {sorted(self._hosts)[0]}")
        if self._tokens and not self._known(headers.get("authorization", "")):
            return Unauthorised("a token is needed", hint="send it as `Authorization: Bearer TOKEN`")
        return None

    def _known(self, authorization: str) -> bool:
        scheme, _, value = authorization.partition(" ")
        match scheme.lower():
            case "bearer":
                token = value.strip()
            case "basic":
                try:
                    token = base64.b64decode(value, validate=True).decode().partition(":")[2]
                except (binascii.Error, UnicodeDecodeError):
                    return False
            case _:
                return False
        given = _digest(token)
        return any(hmac.compare_digest(given, known) for known in self._tokens)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _host_name(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()
