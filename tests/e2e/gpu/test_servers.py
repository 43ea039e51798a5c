"""`tunefarm server --gpu all` on a box with two GPUs, which are stand-ins (tests/stand_in)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.farm.tracker import until
from tests.kit.places import STAND_IN, python_path
from tests.kit.process_tree import children
from tracker.client import connect_tracker
from tracker.server import Tracker

SMI = """#!/bin/sh
echo 'GPU 0: Stand-in (UUID: GPU-0a)'
echo 'GPU 1: Stand-in (UUID: GPU-1b)'
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process that finds two GPUs and the stand-in's pycuda."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TUNEFARM_")}
    return {
        **kept,
        "PATH": f"{smi.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": python_path(STAND_IN),
        "XDG_CONFIG_HOME": str(tmp_path),
    }


@contextmanager
def running(command: list[str], environ: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_server_for_each_gpu(environ: dict[str, str], tmp_path: Path) -> None:
    log, ports = tmp_path / "log", tmp_path / "ports"
    with Tracker(port=0, silent=True) as tracker:
        command = [sys.executable, "-m", "tunefarm", "server", "--gpu", "all", "--name", "lab", "--port", "0"]
        command += ["--port-file", str(ports), "--tracker", f"127.0.0.1:{tracker.port}", "--key", "gpu"]
        with running(command, environ, log) as process, connect_tracker("127.0.0.1", tracker.port) as farm:
            until(lambda: ports.exists() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            _, second = ports.read_text().split()
            assert f"GPU GPU-1b: listening on 127.0.0.1:{second}" in log.read_text()
            until(lambda: len(farm.devices()) == 2)
            assert {(d.box, d.attributes["uuid"]) for d in farm.devices()} == {("lab/0", "GPU-0a"), ("lab/1", "GPU-1b")}
            with farm.lease("key=gpu", wait_s=60) as one, farm.lease("key=gpu", wait_s=60) as other:
                for held in (one, other):  # both at a time
                    with held.open_session() as session:
                        assert session.fingerprint().target == "cuda -arch=sm_80"
            before = children(process.pid)
            assert len(before) == 2
            os.kill(max(before), signal.SIGKILL)
            until(lambda: log.read_text().count("listening on") == 3)  # at its port, unless somebody else took that
            after = children(process.pid)
            assert len(after) == 2
            assert len({*before} & {*after}) == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in after))
