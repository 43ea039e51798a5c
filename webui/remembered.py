"""Answers to lookups, kept for as long as nothing that they rest on changes.

A lookup is asked far more often than its answer changes: a build asks for each of its kernels, a fleet of builds for
the same ones. Before an answer is given again, the store says that nothing was committed since before it was made that
could change it (`tuner.records.changes`), so a new best shows on the very next request. Trials that are not best
change nothing: answers outlive them.

A batch is answered from what was remembered of each of its questions, and asks for all others at once (see
`webui.api.best`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuner.records.changes import ChangeWatch
from webui.api.replies import has_tag

ROUTE = "/api/v1/best"
MOST_BYTES = 64 << 20
MOST_EACH = 1 << 20
_KEPT = (200, 404)


class Freshness:
    """Marks of what the store serves, each taken after it was asked for. Those who ask while one is being taken share
    the next. Of one event loop."""

    def __init__(self, watch: ChangeWatch) -> None:
        self._watch = watch
        self._looking: asyncio.Task[Hashable] | None = None
        self._next: asyncio.Task[Hashable] | None = None

    async def mark(self) -> Hashable:
        if self._watch.quick:
            return self._watch.mark()
        if self._next is None:
            self._next = asyncio.ensure_future(self._look(self._looking))
        return await asyncio.shield(self._next)

    async def _look(self, before: asyncio.Task[Hashable] | None) -> Hashable:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._looking, self._next = self._next, None
        return await run_in_threadpool(self._watch.mark)

    def close(self) -> None:
        self._watch.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole reply, ready to be sent; `unchanged` when the client has it already."""

    start: Message
    body: Message
    unchanged: Message | None
    tag: str

    @staticmethod
    def of(start: Message, body: bytes) -> Answer:
        tag = next((value for name, value in start["headers"] if name == b"etag"), b"")
        kept = [pair for pair in start["headers"] if pair[0] in (b"etag", b"cache-control")]
        unchanged: Message | None = {"type": "http.response.start", "status": 304, "headers": kept} if tag else None
        return Answer(start, {"type": "http.response.body", "body": body}, unchanged, tag.decode())

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
class Part:
    """One answer of a batch, as JSON."""

    text: bytes
    miss: bool

    @property
    def size(self) -> int:
        return len(self.text)


class Kept(Protocol):
    @property
    def size(self) -> int:
        """Bytes that it is long."""


K = TypeVar("K", bound=Kept)


class Answers(Generic[K]):
    """Those made since a mark; the ones asked for longest ago make room. Of one event loop."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._mark: Hashable = None
        self._kept: OrderedDict[Hashable, K] = OrderedDict()
        self._bytes = 0

    def get(self, question: Hashable, mark: Hashable) -> K | None:
        """What was answered before, when the store still serves what `mark` stands for."""
        if mark != self._mark:
            self._mark = mark
            self._kept.clear()
            self._bytes = 0
        known = self._kept.get(question)
        if known is not None:
            self._kept.move_to_end(question)
        return known

    def keep(self, question: Hashable, mark: Hashable, answer: K) -> None:
        """`answer` was made after `mark`; of no use when there was a later one meanwhile."""
        if mark != self._mark or question in self._kept or answer.size > MOST_EACH:
            return
        self._kept[question] = answer
        self._bytes += answer.size + _BESIDE
        while self._bytes > self._most_bytes:
            self._bytes -= self._kept.popitem(last=False)[1].size + _BESIDE


_BESIDE = 2000  # bytes of headers, the question and what Python needs


class Remembered:
    """Answers lookups that it can answer, and asks `app` the rest. The answer is the same whoever asks."""

    def __init__(self, app: ASGIApp, freshness: Freshness) -> None:
        self._app = app
        self._freshness = freshness
        self._answers = Answers[Answer]()

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
                self._answers.keep(question, mark, answer)
        await answer.send(scope, send)

    async def _asked(self, scope: Scope, receive: Receive) -> Answer:
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
        return Answer.of(starts[0], b"".join(parts))
