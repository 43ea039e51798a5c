"""Builds on a real Dask cluster: a scheduler and workers in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import build_makers
import pytest
from cli_farm import until

from compiler.artifact import Artifact
from compiler.runtime.module import load_artifact
from rpc_server.measure import FailureKind
from tuner.builder import BuildRequest, FuncSource, MakeSource, pack_func
from tuner.dask_builder import DaskBuilder
from tuner.errors import TuningError

pytest.importorskip("distributed", reason="the dask extra is not installed")

FUNC = FuncSource(pack_func(build_makers.add_one()))


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self.start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file), "--no-dashboard")
        until(file.exists, lambda: (folder / "scheduler.log").read_text())
        self.address = json.loads(file.read_text())["address"].removeprefix("tcp://")

    def start(self, what: str, *args: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{what}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + what, *args],
                cwd=self.folder,
                env={"PYTHONPATH": str(Path(build_makers.__file__).parent), "PATH": "/usr/bin:/bin"},
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def worker(self, *args: str) -> subprocess.Popen[bytes]:
        return self.start("worker", self.address, "--nthreads", "2", "--no-dashboard", *args)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        yield made
    finally:
        made.stop()


def request(source: FuncSource | MakeSource, timeout_s: float = 30.0) -> BuildRequest:
    return BuildRequest(source, build_makers.TARGET, timeout_s=timeout_s)


def test_a_cluster_without_workers_says_so(cluster: Cluster) -> None:
    with pytest.raises(TuningError, match="has no workers") as caught:
        DaskBuilder(f"dask://{cluster.address}", connect_s=1.0)
    assert "dask worker" in (caught.value.hint or "")


def test_builds_and_their_failures(cluster: Cluster) -> None:
    cluster.worker("--nanny")
    builder = DaskBuilder(f"dask://{cluster.address}", connect_s=60.0)
    try:
        assert builder.workers == 2
        good = [builder.submit(request(FUNC)) for _ in range(4)]
        dying = builder.submit(request(MakeSource(build_makers.dying)))
        slow = builder.submit(request(MakeSource(build_makers.slow), 0.5))
        for outcome in good:
            result = outcome.result(timeout=120)
            assert result.artifact is not None, result.text
            assert load_artifact(Artifact.from_bytes(result.artifact)).entry_func is not None
        assert dying.result(timeout=120).failure is FailureKind.BUILD
        assert "SIGABRT" in dying.result().text
        assert slow.result(timeout=120).failure is FailureKind.BUILD_TIMEOUT
    finally:
        builder.close()


def test_nobody_there() -> None:
    with pytest.raises(TuningError, match=r"no Dask scheduler answers at 127\.0\.0\.1:1"):
        DaskBuilder("dask://127.0.0.1:1", connect_s=1.0)
