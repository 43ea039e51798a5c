"""The web app in this process, on a port of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import uvicorn

from tuner.records.farm.model_farm import Role
from tuner.records.model_store.facts import ProfileJob
from tuner.records.store import RecordStore
from webui.app import create_app
from webui.fleet import DeviceSource
from webui.launcher import Launcher
from webui.serving.server import bind


class FakeLauncher:
    """Keeps what it is asked to start: runs and profiles by id, with their devices."""

    has_tracker = True

    def __init__(self) -> None:
        self.started: list[tuple[int, str]] = []
        self.profiled: list[tuple[int, str]] = []

    def start(self, run_id: int, key: str, trials: int | None = None) -> None:
        self.started.append((run_id, key))

    def profile(self, job: ProfileJob, model_id: int, digest: str) -> None:
        self.profiled.append((job.id, job.key))


@contextmanager
def running_app(
    store: RecordStore, tracker: DeviceSource | None = None, *, hosts: Collection[str] | None = None,
    tokens: Collection[str] = (), open_role: Role | None = Role.ADMIN, launcher: Launcher | None = None,
) -> Iterator[str]:  # fmt: skip
    """The app's address."""
    listener = bind("127.0.0.1", 0)
    app = create_app(
        store,
        tracker,
        hosts=hosts,
        tokens=tokens,
        open_role=open_role,
        launcher=launcher,
        stopping=lambda: server.should_exit,
    )
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2, lifespan="on")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        assert not thread.is_alive()
