"""Who may do what: tokens of the store and of a file, roles, and a limit on guessed tokens."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.routing import Match
from starlette.types import Scope

from compiler.errors import TunefarmError
from tuner.records.farm.model_farm import Role, Token
from tuner.records.farm.scopes import EVERYTHING, Scopes
from tuner.records.farm.tokens import digest_of
from tuner.records.store import RecordStore
from webui.errors import Forbidden, TooManyFailures, Unauthorised

_log = logging.getLogger(__name__)

REMEMBER_S = 5.0
"""How long a token that was looked up is believed: a revoked one works for as long, at most."""
MOST_FAILURES = 10
WINDOW_S = 60.0
_MOST_REMEMBERED = 10_000

Clock = Callable[[], float]


class Limit(Protocol):
    """Counts wrong tokens by the address that sent them."""

    def failed(self, address: str) -> None: ...

    def wait_s(self, address: str) -> float:
        """How long the address has to wait; 0 when it does not."""


class FailureLimit:
    """Addresses that sent too many wrong tokens are not answered for a while. Usable in any thread."""

    def __init__(self, most: int = MOST_FAILURES, window_s: float = WINDOW_S, clock: Clock = time.monotonic) -> None:
        self._most, self._window_s, self._clock = most, window_s, clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, address: str) -> None:
        with self._lock:
            times = self._failures.setdefault(address, deque(maxlen=self._most))
            times.append(self._clock())
            self._failures.move_to_end(address)
            while len(self._failures) > _MOST_REMEMBERED:
                self._failures.popitem(last=False)

    def wait_s(self, address: str) -> float:
        """How long the address has to wait; 0 when it does not."""
        with self._lock:
            times = self._failures.get(address)
            if times is None or len(times) < self._most:
                return 0.0
            return max(0.0, times[0] + self._window_s - self._clock())


class Access:
    """Says which role a request has.
    `file_tokens` may read. `open_role` is the role of requests without a token; None: every request needs one."""

    def __init__(
        self,
        store: RecordStore,
        file_tokens: Collection[str] = (),
        open_role: Role | None = Role.ADMIN,
        limit: Limit | None = None,
    ) -> None:
        self._store = store
        self._file = [digest_of(token) for token in file_tokens]
        self._open_role = open_role
        self._limit: Limit = limit or FailureLimit()
        self._known: dict[str, tuple[float, Token | None]] = {}
        self._notes: set[asyncio.Future[None]] = set()
        self._guesses = asyncio.Semaphore(1)

    async def role(self, authorization: str, address: str) -> tuple[Role, str, Scopes]:
        """The role, the name and the scopes a request goes by.

        Raises Unauthorised, TooManyFailures, StoreUnavailable.
        """
        if not authorization:
            if self._open_role is None:
                raise Unauthorised("a token is needed", hint="send it as `Authorization: Bearer TOKEN`")
            return self._open_role, "", EVERYTHING
        secret = secret_of(authorization)
        wait = self._limit.wait_s(address)
        found = None if secret is None else await self._look_up(secret, slowly=wait > 0)
        if found is not None:  # also from an address that others send wrong ones from
            return found
        if wait > 0:
            raise TooManyFailures(
                "too many wrong tokens came from your address", hint=f"wait {wait:.0f} s", detail={"wait_s": wait}
            )
        if self._open_role is not None and secret is None:
            return self._open_role, "", EVERYTHING  # a header of something else, where none is needed
        self._limit.failed(address)
        raise Unauthorised("this token is unknown here, revoked or expired", hint="`tunefarm token new` makes one")

    async def _look_up(self, secret: str, slowly: bool) -> tuple[Role, str, Scopes] | None:
        """Return whose token it is.
        `slowly`: one request after another, so that guesses do not load the store more."""
        digest = digest_of(secret)
        if any(hmac.compare_digest(digest, known) for known in self._file):
            return Role.READ, "token file", EVERYTHING
        until, token = self._known.get(digest, (0.0, None))
        if time.monotonic() >= until:
            async with self._guesses if slowly else contextlib.nullcontext():
                token = await run_in_threadpool(self._store.tokens.find, secret)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[digest] = (time.monotonic() + REMEMBER_S, token)
            if token is not None:
                self._note_use(token)
        return None if token is None else (token.role, token.name, token.scopes)

    def _note_use(self, token: Token) -> None:
        """Note a token's use in the background, so that a busy store does not hold up the request."""
        note = asyncio.get_running_loop().run_in_executor(None, self._try_note, token.id)
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    def _try_note(self, token_id: int) -> None:
        try:
            self._store.tokens.note_use(token_id)
        except TunefarmError as error:
            _log.warning("the use of a token could not be noted: %s", error.message)


def secret_of(authorization: str) -> str | None:
    """The token in an Authorization header: a bearer's, or the password of basic authentication."""
    scheme, _, value = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip()
        case "basic":
            try:
                return base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return None
        case _:
            return None


def needs(role: Role) -> Callable[[Request], Awaitable[str]]:
    """A dependency of routes that change something.
    It refuses lesser roles, and returns the asker's name."""

    async def check(request: Request) -> str:
        check_role(role, request.scope["tunefarm_role"])
        name: str = request.scope["tunefarm_name"]
        return name

    check.needed_role = role  # type: ignore[attr-defined]
    return check


def check_role(needed: Role, has: Role) -> None:
    """Raise Forbidden for a role that does not allow what another one does."""
    if not has.allows(needed):
        raise Forbidden(f"this takes a token of role {needed}; yours is {has}", hint="`tunefarm token new` makes one")


def needed_role(routers: Sequence[tuple[str, APIRouter]], scope: Scope) -> Role:
    """Return what the route that a request goes to asks for with `needs`.
    `routers` come with the prefix of their paths. Reading needs no look at them."""
    method, path = scope["method"], scope["path"]
    if method in ("GET", "HEAD", "OPTIONS"):
        return Role.READ
    for prefix, router in routers:
        if not path.startswith(prefix):
            continue
        asked = {"type": "http", "method": method, "path": path.removeprefix(prefix), "root_path": "", "headers": []}
        for route in router.routes:
            if isinstance(route, APIRoute) and route.matches(asked)[0] is Match.FULL:
                found = [getattr(part.call, "needed_role", None) for part in route.dependant.dependencies]
                return next((role for role in found if role is not None), Role.READ)
    return Role.READ


Tuner = Annotated[str, Depends(needs(Role.TUNE))]
"""A parameter of this type makes a route need role tune, and receives the token's name."""
Admin = Annotated[str, Depends(needs(Role.ADMIN))]
"""The same for role admin."""
