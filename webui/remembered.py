"""Replies to lookups, kept for as long as nothing that they rest on changes.

Before a reply is used again, the store says whether a commit since then could change it (`records.lookup.changes`).
A new best shows on the very next request, or on PostgreSQL as soon as the server's notification has come in. Trials
that are not best change nothing: replies outlive them.

A batch is answered from the remembered answers of its questions, and asks for all others at once (see
`webui.api.best`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuner.records.lookup.changes import ChangeWatch
from tuner.records.lookup.remembered import Answers
from webui.api.replies import has_tag

ROUTE = "/api/v1/best"
_KEPT = (200, 404)


class Freshness:
    """Marks of what the store serves, each taken after the request for it.
    If the database has to be asked, requests that come meanwhile share the next mark. For one event loop."""

    def __init__(self, watch: ChangeWatch) -> None:
        self._watch = watch
        self._looking: asyncio.Task[Hashable] | None = None
        self._next: asyncio.Task[Hashable] | None = None

    async def mark(self) -> Hashable:
        known = self._watch.glance()
        if known is not None:
            return known
        if self._next is None:
            self._next = asyncio.ensure_future(self._look(self._looking))
        return await asyncio.shield(self._next)

    async def _look(self, before: asyncio.Task[Hashable] | None) -> Hashable:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._looking, self._next = self._next, None
        return await run_in_threadpool(self._watch.mark)


@dataclass(frozen=True, slots=True)
class RememberedAnswer:
    """A whole reply, ready to be sent; `unchanged` when the client has it already."""

    start: Message
    body: Message
    unchanged: Message | None
    tag: str

    @staticmethod
    def of(start: Message, body: bytes) -> RememberedAnswer:
        tag = next((value for name, value in start["headers"] if name == b"etag"), b"")
        kept = [pair for pair in start["headers"] if pair[0] in (b"etag", b"cache-control")]
        unchanged: Message | None = {"type": "http.response.start", "status": 304, "headers": kept} if tag else None
        return RememberedAnswer(start, {"type": "http.response.body", "body": body}, unchanged, tag.decode())

    @property
    def size(self) -> int:
        return len(self.body["body"])

    async def send(self, scope: Scope, send: Send) -> None:
        if self.unchanged is not None:
            given = next((value for name, value in scope["headers"] if name == b"if-none-match"), None)
            if given is not None and has_tag(given.decode("latin-1"), self.tag):
                await send(self.unchanged)
                await send(_NOTHING)
                return
        await send(self.start)
        await send(self.body)


_NOTHING: Message = {"type": "http.response.body", "body": b""}


@dataclass(frozen=True, slots=True)
class RememberedPart:
    """One answer of a batch, as JSON."""

    text: bytes
    miss: bool

    @property
    def size(self) -> int:
        return len(self.text)


class Remembered:
    """Answer lookups from memory if possible, and pass the rest to `app`.
    The answer does not depend on the asker."""

    def __init__(self, app: ASGIApp, freshness: Freshness) -> None:
        self._app = app
        self._freshness = freshness
        self._answers = Answers[RememberedAnswer]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != ROUTE or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        question = scope["query_string"]
        mark = await self._freshness.mark()
        answer = self._answers.get(question, mark)
        if answer is None:
            answer = await self._asked(scope, receive)
            if answer.start["status"] in _KEPT:
                self._answers.keep(question, mark, answer, answer.size)
        await answer.send(scope, send)

    async def _asked(self, scope: Scope, receive: Receive) -> RememberedAnswer:
        """The whole answer, also for who has it already."""
        whole = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"if-none-match"]}
        starts: list[Message] = []
        parts: list[bytes] = []

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start":
                starts.append(message)
            else:
                parts.append(message.get("body", b""))

        await self._app(whole, receive, take)
        return RememberedAnswer.of(starts[0], b"".join(parts))
