"""A run as it happens, as server-sent events.

| event | data |
|---|---|
| `progress` | RunProgress and counts of the run and each task, when they changed and every few seconds |
| `trials` | the trials that arrived, a list of Trial |
| `best` | a CurvePoint and its `task`, for each trial that was the best so far |
| `failures` | the run's FailureCounts, when trials failed |
| `end` | the run's `state` and `message`; nothing follows, and a client must not reconnect |
| `problem` | an error, when the records cannot be read; the client may reconnect |

An event's id is the number of the last trial sent, so a client that reconnects misses nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from compiler.errors import TunefarmError
from tuner.records import model
from tuner.records.store import RecordStore
from webui.api.params import LARGEST, Id
from webui.api.replies import ERRORS, body_of
from webui.api.run_models import CurvePoint, FailureCount, RunProgress, RunTask, Trial
from webui.api.runs import current_progress
from webui.context import Context, Ctx

router = APIRouter(tags=["runs"])

POLL_S = 0.5
"""How often the records are looked at for one listener."""
BEAT_S = 5.0
"""Longest silence: keeps rate and ETA current, and proxies from closing the stream."""
_PAGE = 500

STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "server-sent events", "content": {"text/event-stream": {}}}
}


@router.get("/runs/{run_id}/events", responses={**ERRORS, **STREAM}, response_class=StreamingResponse)
async def events(
    context: Ctx,
    request: Request,
    run_id: Id,
    after: Annotated[
        int | None, Query(ge=0, le=LARGEST, description="send trials after this one; from now without it")
    ] = None,
    last_event_id: Annotated[str | None, Header(description="where a reconnecting client was")] = None,
) -> StreamingResponse:
    """The run's progress, trials, best costs and failures as they happen; the stream ends with the run."""
    await run_in_threadpool(context.store.runs.get, run_id)
    if last_event_id is not None and last_event_id.isdecimal() and len(last_event_id) < 19:
        after = int(last_event_id)
    follower = Follower(context.store, run_id, after)
    return counted(context, request, _stream(context, follower))


def counted(context: Context, request: Request, stream: AsyncIterator[str]) -> StreamingResponse:
    """A stream of events as a response that counts among its client's. Raises TooManyStreams."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    ended = context.streams.open(request.scope["tunefarm_name"] or (request.client.host if request.client else ""))
    return _Counted(stream, ended, media_type="text/event-stream", headers=headers)


class _Counted(StreamingResponse):
    """A stream that says when it has ended, also before its first event."""

    def __init__(self, content: AsyncIterator[str], ended: Callable[[], None], **more: Any) -> None:
        super().__init__(content, **more)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def _stream(context: Context, follower: Follower) -> AsyncIterator[str]:
    yield f"retry: {int(2000 * POLL_S)}\n\n"
    silent = BEAT_S
    while not context.stopping():
        try:
            batch = await run_in_threadpool(follower.look, silent >= BEAT_S)
        except TunefarmError as error:
            yield event("problem", body_of(error)[1].model_dump_json(), follower.after or 0)
            return
        for each in batch.events:
            yield each
        silent = 0.0 if batch.events else silent + POLL_S
        if batch.ended:
            return
        if not batch.more:
            await asyncio.sleep(POLL_S)


@dataclass
class EventBatch:
    """The result of one look: events ready to send, whether more trials wait, whether the run is over."""

    events: list[str] = field(default_factory=list)
    more: bool = False
    ended: bool = False


class Follower:
    """Follows one run for one listener."""

    def __init__(self, store: RecordStore, run_id: int, after: int | None) -> None:
        self._store = store
        self._run_id = run_id
        self._seen: tuple[object, ...] = ()
        self.after = after

    def look(self, beat: bool) -> EventBatch:
        """Events since the last look; with `beat`, the progress even if nothing changed."""
        run = self._store.runs.get(self._run_id)  # before the trials: an ended run has no later ones
        if self.after is None:
            latest = self._store.trials.page(self._run_id, before=2**31 - 1, limit=1, with_trace=False)
            self.after = latest[0].sequence if latest else 0
        trials = self._store.trials.page(self._run_id, after=self.after, limit=_PAGE, with_trace=False)
        batch = EventBatch(more=len(trials) == _PAGE)
        if trials:
            self.after = trials[-1].sequence
            batch.events += self._news(run, trials)
        now = (run.state, run.updated_at, run.trials, run.budget, run.message)
        if beat or now != self._seen:
            self._seen = now
            batch.events.append(self._event("progress", self._progress(run)))
        if run.state.ended and not batch.more:
            batch.events.append(self._event("end", {"state": str(run.state), "message": run.message}))
            batch.ended = True
        return batch

    def _news(self, run: model.Run, trials: Sequence[model.Trial]) -> list[str]:
        events = [self._event("trials", [_data(Trial.of(trial)) for trial in trials])]
        for trial in trials:
            if trial.improved and trial.cost is not None:
                point = model.CurvePoint(
                    trial_id=trial.id,
                    sequence=trial.sequence,
                    elapsed_s=(trial.finished_at - run.started_at).total_seconds(),
                    cost=trial.cost,
                )
                events.append(self._event("best", {"task": trial.task_id, **_data(CurvePoint.of(point))}))
        if any(trial.status is model.TrialStatus.FAILED for trial in trials):
            failures = [_data(FailureCount.of(f)) for f in self._store.runs.failures(self._run_id)]
            events.append(self._event("failures", failures))
        return events

    def _progress(self, run: model.Run) -> dict[str, object]:
        return {
            "state": str(run.state),
            "message": run.message,
            "trials": run.trials,
            "failed": run.failed,
            "budget": run.budget,
            "tasks": [_data(RunTask.of(task)) for task in run.tasks],
            **_data(RunProgress.of(current_progress(self._store, run))),
        }

    def _event(self, name: str, data: object) -> str:
        return event(name, json.dumps(data, separators=(",", ":"), ensure_ascii=False), self.after or 0)


def _data(reply: BaseModel) -> dict[str, object]:
    return reply.model_dump(mode="json")


def event(name: str, data: str, number: int | None = None) -> str:
    """An event as it is sent, with `number` as its id."""
    mark = "" if number is None else f"id: {number}\n"
    return f"{mark}event: {name}\ndata: {data}\n\n"
