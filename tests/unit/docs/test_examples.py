"""The documentation's Python examples run, against real services where they name one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rpc_server.box.server import Server
from tests.kit.cli.farm import until
from tests.kit.cli.run import exit_code
from tests.kit.docs_pages import PAGES, ROOT, blocks
from tests.kit.farm.tracker import CALM
from tests.kit.web import running_app
from tracker.client import connect_tracker
from tracker.server import Tracker
from tuner.records.store import RecordStore

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if "import torch" not in path.read_text())
"""Those with PyTorch are run by tests/torch."""
KERNEL = "matmul:64,64,64:float32"  # what docs/build-jobs.md and examples/build_job.py build
SERVER, TRACKER, WEB = "9091", "9190", "9180"


@pytest.fixture(scope="module")
def server_port():
    """A device server."""
    with Server("127.0.0.1", port=0, silent=True) as server:
        yield server.port


@pytest.fixture(scope="module")
def tracker_port():
    """A tracker with a device."""
    with Tracker("127.0.0.1", port=0, silent=True, timing=CALM) as tracker:
        address = ("127.0.0.1", tracker.port)
        with (
            Server("127.0.0.1", port=0, silent=True, tracker_addr=address),
            connect_tracker(*address, timeout_s=60) as session,
        ):
            until(session.devices)
            yield tracker.port


@pytest.fixture(scope="module")
def web_port(tmp_path_factory):
    """A web app whose records hold a config for the documentation's kernel."""
    db = str(tmp_path_factory.mktemp("web") / "farm.db")
    assert exit_code("tune", KERNEL, "--trials", "2", "--quiet", "--db", db) == 0
    with RecordStore.open(db) as store, running_app(store) as address:
        yield address.rpartition(":")[2]


def with_ports(request: pytest.FixtureRequest, text: str) -> str:
    """The text with the ports of running services in place of the default ones it names."""
    for default, fixture in ((SERVER, "server_port"), (TRACKER, "tracker_port"), (WEB, "web_port")):
        if default in text:
            text = text.replace(default, str(request.getfixturevalue(fixture)))
    return text


def runnable(page: Path):
    return [block for block in blocks(page) if block.words[:2] == ("python", "run")]


@pytest.mark.parametrize("page", [p for p in PAGES if runnable(p)], ids=lambda p: p.name)
def test_the_examples_of_a_page_run_in_order(page, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in runnable(page):
        exec(compile(with_ports(request, block.padded), str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_python_block_at_least_compiles(page):
    for block in blocks(page):
        if block.words[:1] == ("python",):
            compile(block.padded, str(page), "exec")


def test_the_readme_and_the_compiler_page_have_examples_that_run():
    assert {"README.md", "compiler.md", "build-jobs.md", "farm.md"} <= {p.name for p in PAGES if runnable(p)}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_an_example_program_runs(example, request, tmp_path):
    script = tmp_path / example.name
    script.write_text(with_ports(request, example.read_text()))
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
