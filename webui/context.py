"""The state that every route needs, and how a route gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from tuner.records.lookup.remembered import Answers
from tuner.records.store import RecordStore
from webui.fleet import FleetWatch
from webui.launcher import Launcher
from webui.remembered import Freshness, RememberedPart
from webui.serving.limits import Streams


@dataclass(frozen=True)
class Context:
    """`stopping` turns true when the server is about to end, so that streams end with it. `launcher`
    starts tuning runs; None: this app starts none. `parts` are answers of batches, good for what `freshness` says;
    `streams` counts who listens to runs."""

    store: RecordStore
    freshness: Freshness
    fleet: FleetWatch
    version: str
    stopping: Callable[[], bool]
    launcher: Launcher | None = None
    parts: Answers[RememberedPart] = field(default_factory=Answers)
    streams: Streams = field(default_factory=Streams)


async def _context(request: Request) -> Context:  # async: not a trip to a thread on each request
    context: Context = request.app.state.context
    return context


Ctx = Annotated[Context, Depends(_context)]
"""A parameter of this type receives the app's context."""
