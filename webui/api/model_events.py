"""A model as it is tuned and measured, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from compiler.errors import TunefarmError
from tuner.records.model_store.facts import Viewer
from tuner.records.store import RecordStore
from webui.api.events import BEAT_S, POLL_S, STREAM, counted, event
from webui.api.model_replies import ModelVersion
from webui.api.model_routes import times_of, viewer_of
from webui.api.params import Id
from webui.api.replies import ERRORS, body_of
from webui.context import Context, Ctx

router = APIRouter(tags=["models"], responses=ERRORS)


@router.get("/models/{model_id}/events", responses=STREAM, response_class=StreamingResponse)
async def model_events(
    context: Ctx, request: Request, model_id: Id,
    after: Annotated[int | None, Query(ge=0, description="send times after this one; from now without it")] = None,
) -> StreamingResponse:  # fmt: skip
    """A model's new times and versions and its runs' progress, as they happen. It ends when the app does.

    Events: `time` (a ModelTime), `version` (a ModelVersion), `run` (id, state, trials, budget), and `problem`.
    """
    await run_in_threadpool(context.store.models.get, model_id, viewer_of(request))
    follower = ModelFollower(context.store, model_id, viewer_of(request), after)
    return counted(context, request, _followed(context, follower))


async def _followed(context: Context, follower: ModelFollower) -> AsyncIterator[str]:
    yield f"retry: {int(2000 * POLL_S)}\n\n"
    silent = 0.0
    while not context.stopping():
        try:
            events = await run_in_threadpool(follower.look)
        except TunefarmError as error:
            yield event("problem", body_of(error)[1].model_dump_json())
            return
        for each in events:
            yield each
        silent = 0.0 if events else silent + POLL_S
        if silent >= BEAT_S:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S)


class ModelFollower:
    """Follows one model for one listener."""

    def __init__(self, store: RecordStore, model_id: int, viewer: Viewer, after: int | None) -> None:
        self._store, self._model_id, self._viewer = store, model_id, viewer
        newest = store.models.times(model_id, limit=1)
        self._time = (newest[0].id if newest else 0) if after is None else after
        versions = store.models.versions(model_id, 1)
        self._version = versions[0].id if versions else 0
        self._runs: dict[int, tuple[object, ...]] = {}

    def look(self) -> list[str]:
        """Events since the last look. Raises RecordNotFound once the model is gone."""
        store = self._store
        store.models.get(self._model_id, self._viewer)
        events = []
        versions = store.models.versions(self._model_id, 20)
        for version in reversed([v for v in versions if v.id > self._version]):
            self._version = version.id
            events.append(event("version", ModelVersion.of(version).model_dump_json()))
        times = store.models.times(self._model_id, limit=100)
        new = tuple(reversed([time for time in times if time.id > self._time]))
        for time, shown in zip(new, times_of(store, new), strict=True):
            self._time = time.id
            events.append(event("time", shown.model_dump_json(), time.id))
        for number in store.models.runs(versions[0].id, 5) if versions else ():
            run = store.runs.get(number)
            now = (str(run.state), run.trials, run.budget)
            if self._runs.get(number) != now:
                self._runs[number] = now
                told = {"id": run.id, "state": str(run.state), "trials": run.trials, "budget": run.budget}
                events.append(event("run", json.dumps(told)))
        return events
