"""A box with a GPU on the farm. The driver is a stand-in (tests/stand_in) that runs the kernels' PTX; all else is what
runs on a GPU: server, executor, runtime, probe, tracker, tuner."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.errors import ServerStartError
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest
from tests.kit.farm.tracker import until
from tests.kit.places import STAND_IN, python_path
from tracker.client import connect_tracker
from tracker.server import Tracker
from tunefarm.cli.farm import examine
from tuner.untuned import device_type

QUICK = EvaluatorOptions(number=1, repeat=2)
_SCALE = """
@T.prim_func
def scale(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for t in T.thread_binding(64, thread="threadIdx.x"):
        y[t] = x[t + {far}] * T.float32({factor})
"""


@pytest.fixture(scope="module", autouse=True)
def stand_in() -> Iterator[None]:
    """Processes started here find the stand-in's pycuda, and one GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path(STAND_IN))
        yield


@pytest.fixture(scope="module")
def box() -> Iterator[Server]:
    with Server(port=0, gpu="GPU-0", key="gpu") as running:
        yield running


def scale(factor: float, far: int = 0) -> Artifact:
    func = from_source(_SCALE.format(factor=factor, far=far))
    assert isinstance(func, PrimFunc)
    return compile_artifact(func, "cuda -arch=sm_80", name="scale")


def ask(candidate: Artifact, reference: Artifact) -> MeasureRequest:
    return MeasureRequest(
        candidate.digest, reference=reference.digest, options=QUICK, timeout_s=60.0, device_type=device_type(candidate)
    )


def test_trials(box: Server) -> None:
    right, wrong, astray = scale(2), scale(3), scale(2, far=1 << 24)
    with open_session("127.0.0.1", box.port, wait_s=60, restart_on_crash=True) as session:
        fingerprint = session.fingerprint()
        assert fingerprint.target == "cuda -arch=sm_80"
        assert fingerprint.device_class == "stand-in-gpu/sm_80/1sm/0g"
        result = session.measure(ask(right, right), (right,))
        assert result.ok, result.text
        assert len(result.costs) == 2
        failed = session.measure(ask(wrong, right), (wrong, right))
        assert failed.failure is FailureKind.WRONG_RESULT
        lost = session.measure(ask(astray, right), (astray, right))
        assert lost.failure is FailureKind.CRASH
        assert "exited with code 75" in lost.text
        assert "illegal memory access" in lost.text
        again = session.measure(ask(right, right), (right,))  # in an executor, and a context, of its own
        assert again.ok, again.text
        flushed = EvaluatorOptions(number=1, repeat=1, flush_cache=True)
        cold = MeasureRequest(right.digest, options=flushed, timeout_s=60.0, device_type="cuda")
        assert session.measure(cold, (right,)).ok
        on_cpu = MeasureRequest(right.digest, options=QUICK, timeout_s=60.0)
        assert "is built for cuda, the trial is on cpu(0)" in session.measure(on_cpu, (right,)).text


def test_a_gpu_that_a_kernel_lost_is_checked_before_its_next_lease(tmp_path: Path) -> None:
    with (
        Tracker(port=0, silent=True) as tracker,
        Server(port=0, gpu="GPU-1", tracker_addr=("127.0.0.1", tracker.port), name="lab", silent=True),
    ):
        with connect_tracker("127.0.0.1", tracker.port) as farm, farm.lease("key=gpu arch=sm_80", wait_s=60) as held:
            [device] = farm.devices()
            assert device.attributes["gpu"] == "Stand-in GPU"
            assert device.attributes["uuid"] == "GPU-1"
            assert {"gpu", "cuda", "sm_80"} <= set(device.tags)
            assert device.check is not None
            assert device.check.passed
            astray = scale(2, far=1 << 24)
            with held.open_session(restart_on_crash=True) as session:
                assert session.measure(ask(astray, astray), (astray,)).failure is FailureKind.CRASH
                until(lambda: farm.devices()[0].state == "suspect")
                assert "illegal memory access" in farm.devices()[0].reason
        with connect_tracker("127.0.0.1", tracker.port) as farm, farm.lease("key=gpu", wait_s=60):
            assert farm.devices()[0].state == "leased"  # it passed the check


def test_tuning(box: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tunefarm", "tune", "copy:128", "--target", "cuda", "--trials", "2"]
    command += [
        "--timeout",
        "1",
        "--device",
        f"127.0.0.1:{box.port}",
        "--db",
        f"sqlite:///{tmp_path}/farm.db",
        "--builders",
        "1",
    ]
    command += ["--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    [task] = json.loads(done.stdout)["tasks"]
    assert task["trials"] == 2
    assert task["failures"] == {}
    assert task["best_s"] > 0


def test_the_doctor_looks_at_it(box: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "_KERNEL", "copy:64")  # the stand-in is slow
    monkeypatch.setattr(examine, "_OPTIONS", QUICK)
    found = {f.about: f for f in examine.examine_server("127.0.0.1", box.port, KeyRing("/nonexistent"))}
    assert found["GPU"].text.startswith("Stand-in GPU, sm_80")
    assert found["kernel"].level == "ok", found["kernel"].text


def test_gpus_that_cannot_be_lent() -> None:
    with pytest.raises(ServerStartError, match=r"GPU none cannot be lent: .*no CUDA-capable device"):
        Server(port=0, gpu="none", silent=True)
