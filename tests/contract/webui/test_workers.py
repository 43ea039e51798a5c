"""The web app in several processes: one address, one count of wrong tokens, and a new process for one that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest

from tests.kit.records.farm import KEY, V3, ZEN3, Farm
from tuner.records.farm.model_farm import Role
from tuner.records.store import RecordStore
from webui.access import MOST_FAILURES
from webui.serving.limits import STREAMS_OF_ONE
from webui.serving.shared_limit import SharedCounts, SharedLimit

SERVE = """
import sys
from pathlib import Path
from webui.serving.server import WebOptions
from webui.serving.workers import serve_workers
serve_workers(WebOptions(db=sys.argv[1], port=0, port_file=Path(sys.argv[2]), workers=2, require_token=True))
"""


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        yield Farm(store)


def get(port: int, path: str, token: str) -> tuple[int, bytes]:
    """Status and body, over a connection of its own, which any of the processes may take."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    reply = connection.getresponse()
    try:
        return reply.status, reply.read()
    finally:
        connection.close()


@contextmanager
def stream(port: int, path: str, token: str) -> Iterator[int]:
    """The status of an answer that goes on."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        yield connection.getresponse().status


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300  # two processes import the whole web app
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_processes_from_start_to_end(farm: Farm, tmp_path: Path) -> None:
    run = farm.run()
    farm.trial(run, "d", 1.0, 1.0)
    token = farm.store.tokens.new("t", Role.READ)[1]
    query = urlencode({"workload": KEY, "target": V3, "device_class": ZEN3})
    port_file = tmp_path / "port"
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "webui.py").write_text("raise RuntimeError('this is no part of tunefarm')\n")
    command = [sys.executable, "-P", "-c", SERVE, farm.store.address, str(port_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            wait_for(lambda: port_file.exists() or process.poll() is not None)
            port = int(port_file.read_text())
            assert process.stdout is not None
            assert process.stdout.readline().strip() == f"listening on http://127.0.0.1:{port}"
            workers = psutil.Process(process.pid).children()
            assert len(workers) == 2

            def costs() -> set[float]:
                replies = [get(port, f"/api/v1/best?{query}", token) for _ in range(8)]
                return {json.loads(body)["config"]["cost_s"] for _, body in replies}

            assert costs() == {1.0}
            farm.trial(run, "e", 0.5, 0.5)
            assert costs() == {0.5}
            workers[0].kill()
            wait_for(lambda: len(set(psutil.Process(process.pid).children()) - {workers[0]}) == 2)
            assert costs() == {0.5}
            statuses = [get(port, "/api/v1/health", "wrong")[0] for _ in range(MOST_FAILURES + 2)]
            assert statuses == [401] * MOST_FAILURES + [429] * 2
            with ExitStack() as stack:
                path = f"/api/v1/runs/{run.id}/events"
                streams = [stack.enter_context(stream(port, path, token)) for _ in range(STREAMS_OF_ONE + 2)]
                assert streams == [200] * STREAMS_OF_ONE + [429] * 2
            workers = psutil.Process(process.pid).children()
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(60) == 0
            assert not any(worker.is_running() for worker in workers)
            assert not port_file.exists()
        finally:
            process.kill()


def test_failures_are_counted_by_several_together() -> None:
    with tempfile.TemporaryFile() as file:
        SharedLimit.prepare(file)
        one, other = SharedLimit(file), SharedLimit(file)
        for number in range(MOST_FAILURES):
            assert one.wait_s("a") == other.wait_s("a") == 0
            (one, other)[number % 2].failed("a")
        assert 0 < one.wait_s("a") <= 60
        assert 0 < other.wait_s("a") <= 60
        assert other.wait_s("b") == 0


def test_what_clients_have_is_counted_by_several_together() -> None:
    with tempfile.TemporaryFile() as file:
        SharedCounts.prepare(file, 2)
        one, other = (SharedCounts(file, 2, number) for number in range(2))
        assert one.add("a") == (1, 1)
        assert other.add("a") == (2, 2)
        assert other.add("b") == (1, 3)
        one.remove("a")
        assert one.add("a") == (2, 3)
        again = SharedCounts(file, 2, 0)  # the process that had them died
        assert again.add("a") == (2, 3)
        other.remove("a")
        other.remove("b")
        assert again.add("c") == (1, 2)


def test_failures_long_ago_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with tempfile.TemporaryFile() as file:
        SharedLimit.prepare(file)
        limit = SharedLimit(file)
        for _ in range(MOST_FAILURES):
            limit.failed("a")
            now += 5
        assert limit.wait_s("a") == 10
        now += 10
        assert limit.wait_s("a") == 0
        limit.failed("a")
        assert limit.wait_s("a") == 5, "until the next of the last ten is long ago"
