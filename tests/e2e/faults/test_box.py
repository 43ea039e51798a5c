"""Faults that strike one box: clients that go at the worst moment, a full disk, a dead network, a jumping clock."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import zmq

from compiler.runtime.core import ndarray as nd
from rpc_server.box.server import Server
from rpc_server.client.connect import box_status, open_session
from rpc_server.errors import RemoteFileError, RPCError, SessionClosed
from rpc_server.machine.blobs import BlobError
from rpc_server.wire.messages import OpenSession, public_codec
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest
from tests.kit.farm.fault_farm import until
from tests.kit.farm.network import other_network
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.places import ROOT
from tracker.client import connect_tracker
from tracker.farm_parts import Timing
from tracker.server import Tracker

QUICK = EvaluatorOptions(number=2, repeat=2)


def works(remote):
    artifact = kernel("add_one")
    assert remote.measure(MeasureRequest(artifact.digest, options=QUICK), [artifact]).ok


def test_a_client_gone_before_its_request_was_read_holds_no_session():
    """Its request is read after the news of its end, or after another connection got its descriptor."""
    with Server(port=0, sessions=2, silent=True) as server:
        context = zmq.Context()
        try:
            for _ in range(40):
                for _ in range(5):
                    with context.socket(zmq.DEALER) as sock:
                        sock.setsockopt(zmq.LINGER, 500)
                        sock.connect(f"tcp://127.0.0.1:{server.port}")
                        sock.send_multipart(public_codec.encode(OpenSession("fleeting", wait_s=60), request_id=1))
                box_status("127.0.0.1", server.port)
        finally:
            context.destroy(linger=500)
        until(lambda: box_status("127.0.0.1", server.port).sessions == (), "nobody holds a session", 60.0)
        with open_session("127.0.0.1", server.port, wait_s=60) as remote:
            works(remote)


def sync_for(remote, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        remote.cpu().sync()
        time.sleep(0.05)


# --- a full disk -------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tunefarm-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_what_was_to_be_written(small_disk):
    with (
        Server(port=0, folder=str(small_disk), silent=True) as server,
        open_session("127.0.0.1", server.port, wait_s=60) as remote,
    ):
        kept = np.random.default_rng(1).bytes(1 << 20)
        remote.upload(kept, "kept")
        works(remote)
        before = kernel("add_one")
        assert remote.measure(MeasureRequest(before.digest, options=QUICK), [before]).ok  # what runs trials has started
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        with pytest.raises((BlobError, RemoteFileError), match="No space left"):
            remote.upload(os.urandom(1 << 20), "more")
        with pytest.raises(RemoteFileError):  # no half of it is left to be taken for the whole
            remote.download("more")
        assert remote.download("kept") == kept
        artifact = kernel("negate")
        failed = remote.measure(MeasureRequest(artifact.digest, options=QUICK), [artifact])
        assert failed.failure is FailureKind.UPLOAD
        assert "No space left" in failed.text
        a = nd.array(np.zeros(1024, np.float32), remote.cpu())
        np.testing.assert_array_equal(a.numpy(), 0)
        filler.unlink()
        remote.upload(b"x" * (1 << 20), "more")
        assert remote.measure(MeasureRequest(artifact.digest, options=QUICK), [artifact]).ok
        works(remote)


def test_a_reference_that_does_not_fit_on_the_disk_is_blamed_on_the_disk(small_disk):
    with (
        Server(port=0, folder=str(small_disk), silent=True) as server,
        open_session("127.0.0.1", server.port, wait_s=60) as remote,
    ):
        big = kernel("add_one", 4 << 20)  # 16 MiB of output
        request = MeasureRequest(big.digest, options=QUICK, timeout_s=30, reference=big.digest)
        failed = remote.measure(request, [big])
        assert failed.failure is FailureKind.UPLOAD
        assert "cannot keep the reference's outputs" in failed.text
        works(remote)


# --- a dead network ----------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere():
    with other_network() as network:
        yield network


def test_a_dead_network_ends_the_session_on_both_sides(elsewhere):
    interface, address = elsewhere.interface, elsewhere.there
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        code = (
            "from rpc_server.box.server import ServerOptions, serve\n"
            f"serve(ServerOptions(host='{address}', port=0, insecure=True, port_file='{port_file}', silent=True))\n"
        )
        inside = elsewhere.inside
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        box = subprocess.Popen([*inside, sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL)
        try:
            until(port_file.exists, "the box listens")
            port = int(port_file.read_text())
            remote = open_session(address, port, wait_s=60)
            a = nd.array(np.arange(4.0, dtype=np.float32), remote.cpu())
            subprocess.run(["ip", "link", "set", interface, "down"], check=True)
            with pytest.raises(SessionClosed, match="gone"):
                a.numpy()
            remote.close()
            ask = f"from rpc_server.client.connect import box_status; print(box_status('{address}', {port}).sessions)"

            def idle() -> bool:
                told = subprocess.run([*inside, sys.executable, "-c", ask], env=env, capture_output=True, text=True)
                return told.stdout.strip() == "()"

            until(idle, "the box has ended the session", 60.0)
            subprocess.run(["ip", "link", "set", interface, "up"], check=True)
            with open_session(address, port, wait_s=60, connect_timeout=30) as again:
                works(again)
        finally:
            box.terminate()
            box.wait()


# --- a jumping clock ---------------------------------------------------------------------------------------

_JUMPY = """
import random, time
_honest, _rng = time.time, random.Random(5)
time.time = lambda: _honest() + _rng.choice((1e5, 1e7)) * _rng.uniform(-1, 1)
time.time_ns = lambda: int(time.time() * 1e9)
"""


def test_clock_jumps_end_nothing_and_prolong_nothing(tmp_path, monkeypatch):
    """Tracker and box are told another wall-clock time whenever they ask, hours to months apart."""
    (tmp_path / "sitecustomize.py").write_text(_JUMPY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    timing = Timing(grace_s=5.0)
    with Tracker(port=0, silent=True, timing=timing) as tracker:
        address = ("127.0.0.1", tracker.port)
        with (
            Server(port=0, silent=True, tracker_addr=address, key="cpu", name="box"),
            connect_tracker(*address, user="ann", timeout_s=60) as session,
        ):
            remote = session.request("cpu", wait_s=60)
            end = time.monotonic() + timing.grace_s + 2.0
            while time.monotonic() < end:
                works(remote)
                time.sleep(0.1)
            times = [event.time for event in session.events()]
            assert max(times) - min(times) > 1800, "the clock did not jump"
            remote.close()
            asked = time.monotonic()
            with session.request("cpu", session_timeout=4.0, wait_s=60) as limited, pytest.raises(RPCError):
                sync_for(limited, 60.0)
            assert time.monotonic() >= asked + 4.0  # not before its time either
