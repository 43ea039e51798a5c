"""Builds on a real Dask cluster: a scheduler and workers in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from compiler.artifact import Artifact
from compiler.runtime.load import load_artifact
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.cli.farm import until
from tests.kit.places import ROOT
from tests.kit.tuner import build_makers
from tuner.build.dask_builder import DaskBuilder
from tuner.build.process_builder import BuildRequest, FuncSource, MakeSource, pack_func
from tuner.devices.supplies import LocalFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_search
from tuner.errors import TuningError
from tuner.task import TuningTask


@pytest.fixture(scope="module", autouse=True)
def distributed() -> None:
    """Not when the tests are collected: that takes a second."""
    pytest.importorskip("distributed", reason="the dask extra is not installed")


FUNC = FuncSource(pack_func(build_makers.add_one()))


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self.start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file), "--no-dashboard")
        until(file.exists, self.log)
        self.address = json.loads(file.read_text())["address"].removeprefix("tcp://")

    def start(self, what: str, *args: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{what}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + what, *args],
                cwd=self.folder,
                env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def worker(self, *args: str) -> subprocess.Popen[bytes]:
        return self.start("worker", self.address, "--nthreads", "2", "--no-dashboard", *args)

    def log(self) -> str:
        return "\n".join(file.read_text() for file in self.folder.glob("*.log"))

    def stop(self) -> None:
        """The scheduler last: a worker that can no longer sign off there tries to for a minute."""
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def request(source: FuncSource | MakeSource, timeout_s: float = 300.0) -> BuildRequest:
    return BuildRequest(source, build_makers.TARGET, timeout_s=timeout_s)


def without_workers(cluster: Cluster) -> str:
    """Return the hint for a cluster that has no workers; an empty text if the scheduler does not answer in time."""
    with pytest.raises(TuningError) as caught:
        DaskBuilder(f"dask://{cluster.address}", connect_s=3.0)
    return (caught.value.hint or "") if "has no workers" in caught.value.message else ""


def test_a_cluster_without_workers_says_so_and_with_one_builds(cluster: Cluster) -> None:
    until(lambda: "dask worker" in without_workers(cluster), cluster.log)
    cluster.worker("--nanny")
    builder = DaskBuilder(f"dask://{cluster.address}", connect_s=60.0)
    try:
        assert builder.workers == 2
        good = [builder.submit(request(FUNC)) for _ in range(4)]
        dying = builder.submit(request(MakeSource(build_makers.dying)))
        slow = builder.submit(request(MakeSource(build_makers.slow), 0.5))
        for outcome in good:
            result = outcome.result(timeout=300)
            assert result.artifact is not None, result.text
            assert load_artifact(Artifact.from_bytes(result.artifact)).entry_func is not None
        assert dying.result(timeout=300).failure is FailureKind.BUILD
        assert "SIGABRT" in dying.result().text
        assert slow.result(timeout=300).failure is FailureKind.BUILD_TIMEOUT
    finally:
        builder.close()


def test_a_whole_run_on_the_cluster_one_of_whose_workers_is_killed_in_mid_build(
    cluster: Cluster, tmp_path: Path
) -> None:
    doomed = cluster.worker("--no-nanny")
    builder = DaskBuilder(f"dask://{cluster.address}", connect_s=60.0)
    fleet = LocalFleet()
    try:
        held = [builder.submit(request(MakeSource(partial(build_makers.gated, tmp_path)))) for _ in range(2)]
        until(lambda: len(list(tmp_path.glob("begun-*"))) == 2, cluster.log)
        cluster.worker("--no-nanny")
        doomed.kill()
        doomed.wait()
        until(lambda: len(list(tmp_path.glob("begun-*"))) == 4, cluster.log)  # both begin again elsewhere
        (tmp_path / "open").touch()
        assert [outcome.result(timeout=300).text for outcome in held] == ["", ""]

        task = TuningTask.from_spec("matmul:16,16,16", fleet.target())
        outcome = tune(
            [sketch_search(task)],
            fleet=fleet,
            builder=builder,
            options=RunOptions(trials=6, finalists=0, sample_ms=1, run_timeout_s=120.0, build_timeout_s=120.0),
        )
        assert (outcome.snapshot.done, dict(outcome.snapshot.failures)) == (6, {})
    finally:
        builder.close()
        fleet.close()


def test_nobody_there() -> None:
    with pytest.raises(TuningError, match=r"no Dask scheduler answers at 127\.0\.0\.1:1"):
        DaskBuilder("dask://127.0.0.1:1", connect_s=1.0)
