"""The web app as a process: it starts, says where, and ends when told to."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.kit import patient_http
from tests.kit.records.seed import Seeded
from tests.kit.web import running_app
from tuner.records.store import RecordStore

SERVE = """
import sys
from pathlib import Path
from webui.serving.server import WebOptions, serve
assert not {"compiler.codegen", "compiler.relax"} & sys.modules.keys(), "the web app begins without what makes code"
serve(WebOptions(db=sys.argv[1], port=int(sys.argv[2]), port_file=Path(sys.argv[3])))
print("ended")
"""


@pytest.fixture
def database(seeded_template: tuple[Path, Seeded], tmp_path: Path) -> Path:
    return Path(shutil.copyfile(seeded_template[0], tmp_path / "records.db"))


@contextmanager
def _serve(database: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    port_file = database.with_suffix(".port")
    command = [sys.executable, "-c", SERVE, str(database), "0", str(port_file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, port_file
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _wait_for(path: Path, process: subprocess.Popen[str]) -> int:
    deadline = time.monotonic() + 300  # a process imports the whole web app
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_from_start_to_end(database: Path, number: signal.Signals) -> None:
    with _serve(database) as (process, port_file):
        port = _wait_for(port_file, process)
        address = f"http://127.0.0.1:{port}"
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"listening on {address}"
        assert patient_http.get(f"{address}/api/v1/health").json()["status"] == "ok"
        # a listener of a live run does not keep the server from ending
        with httpx.stream("GET", f"{address}/api/v1/runs/4/events", timeout=60) as stream:
            lines = stream.iter_lines()
            next(lines)
            os.kill(process.pid, number)
            for _ in lines:
                pass
        process.wait(60)
        assert not port_file.exists()


def test_a_port_in_use(database: Path) -> None:
    with RecordStore.open(database) as store, running_app(store) as address:
        port = address.rpartition(":")[2]
        command = [sys.executable, "-c", SERVE, str(database), port, str(database.with_suffix(".other"))]
        second = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert second.returncode != 0
        assert f"port {port} on 127.0.0.1 is in use" in second.stderr
        assert patient_http.get(f"{address}/api/v1/health").status_code == 200
