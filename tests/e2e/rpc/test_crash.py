"""Kernels that misbehave, and processes that die: each costs its own trial or session, never the server."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server.box.server import Server
from rpc_server.client.connect import box_status, open_session
from rpc_server.errors import DeadlineExceeded, ExecutorCrashed, OutOfMemory, SessionClosed
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.process_tree import children, is_alive, once_it_computes

MEMORY = 512 << 20
QUICK = EvaluatorOptions(number=2, repeat=2)


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # executors may run as another user
        with Server(port=0, memory_limit=MEMORY, folder=folder) as running:
            running.folder = Path(folder)
            yield running


def start(remote, kind):
    remote.upload(kernel(kind).to_bytes(), "k.tunefarm")
    module = remote.load_module("k.tunefarm")
    a = nd.array(np.zeros(1024, np.float32), remote.cpu())
    return module["kernel"], a


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def use_until_it_ends(array):
    for _ in range(6000):
        array.numpy()
        time.sleep(0.01)


def test_a_segfault_is_told_and_ends_the_session(remote):
    function, a = start(remote, "segfault")
    with pytest.raises(ExecutorCrashed) as caught:
        function(a, a)
    assert caught.value.signal == "SIGSEGV"
    assert caught.value.exit_code is None
    assert "kernel" in caught.value.call
    assert "Segmentation fault" in caught.value.stderr
    with pytest.raises(SessionClosed, match="SIGSEGV"):
        a.numpy()


def test_an_exit_is_told(remote):
    function, a = start(remote, "exit")
    with pytest.raises(ExecutorCrashed, match="code 3") as caught:
        function(a, a)
    assert (caught.value.exit_code, caught.value.signal) == (3, None)


def test_an_endless_loop_is_killed_at_the_deadline(remote):
    remote.call_timeout = 600.0
    function, a = start(remote, "forever")
    remote.call_timeout = 0.7  # only now: what went before may take a busy machine longer
    with pytest.raises(DeadlineExceeded, match=r"kernel.*0\.7 s"):
        function(a, a)
    with pytest.raises(SessionClosed):
        a.numpy()


def test_allocating_without_end_is_out_of_memory(remote):
    function, a = start(remote, "hungry")
    with pytest.raises(OutOfMemory, match="512 MiB"):
        function(a, a)


def trial(kind, **changes):
    artifact = kernel(kind)
    options = {"artifact": artifact.digest, "options": QUICK, "timeout_s": 120.0, **changes}
    return MeasureRequest(**options), [artifact]


@pytest.mark.parametrize(
    ("kind", "failure", "words"),
    [
        ("segfault", FailureKind.CRASH, "SIGSEGV"),
        ("exit", FailureKind.CRASH, "code 3"),
        ("forever", FailureKind.RUN_TIMEOUT, "0.8 s"),
        ("hungry", FailureKind.OUT_OF_MEMORY, "512 MiB"),
    ],
)
def test_a_lease_survives_bad_candidates(remote, kind, failure, words):
    first = remote.measure(*trial("add_one"))
    assert first.ok
    bad = remote.measure(*trial(kind, timeout_s=0.8 if kind == "forever" else 120.0))
    assert (bad.failure, bad.costs) == (failure, ())
    assert words in bad.text
    assert bad.elapsed_s > 0
    assert remote.measure(*trial("add_one")).ok


def test_without_restart_a_bad_candidate_ends_the_session(server):
    with open_session("127.0.0.1", server.port, wait_s=60, restart_on_crash=False) as remote:
        assert remote.measure(*trial("segfault")).failure is FailureKind.CRASH
        with pytest.raises(SessionClosed):
            remote.measure(*trial("add_one"))


def test_an_executor_killed_from_outside_is_reported(remote):
    function, a = start(remote, "forever")
    pid = remote.executor_pid
    with once_it_computes(pid, lambda: os.kill(pid, signal.SIGKILL)), pytest.raises(ExecutorCrashed) as caught:
        function(a, a)
    assert caught.value.signal == "SIGKILL"


def test_an_idle_executor_that_dies_ends_its_session(remote):
    a = nd.array(np.zeros(4, np.float32), remote.cpu())
    os.kill(remote.executor_pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(remote.executor_pid))
    with pytest.raises((SessionClosed, ExecutorCrashed), match="SIGKILL"):
        use_until_it_ends(a)


def test_a_dead_client_frees_its_executor(server):
    code = f"""
        import time
        from rpc_server.client.connect import open_session
        session = open_session("127.0.0.1", {server.port}, wait_s=60, client="doomed")
        session.upload(b"x", "x")
        print(session.executor_pid, flush=True)
        time.sleep(600)
    """
    client = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(client.stdout.readline())
        assert is_alive(pid)
        assert box_status("127.0.0.1", server.port).sessions == ("doomed",)
    finally:
        client.kill()
        client.wait()
        client.stdout.close()
    wait_until(lambda: not is_alive(pid))
    wait_until(lambda: box_status("127.0.0.1", server.port).sessions == ())
    open_session("127.0.0.1", server.port, wait_s=60).close()


def test_a_session_leaves_nothing_behind(server):
    with open_session("127.0.0.1", server.port, wait_s=60) as remote:
        remote.upload(b"x" * 1000, "x")
        (file,) = server.folder.glob("tunefarm-server-*/executor-*/x")
    wait_until(lambda: not file.parent.exists())


def test_executors_die_with_a_killed_server(tmp_path):
    server = Server(port=0, folder=str(tmp_path), warm=2)
    session = open_session("127.0.0.1", server.port, wait_s=60)
    try:
        wait_until(lambda: len(children(server.pid)) == 3)
        executors = children(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in executors))
        with pytest.raises(SessionClosed, match="connection"):
            session.cpu().sync()
    finally:
        session.close()
        server.terminate()
    leftover = list(tmp_path.glob("tunefarm-server-*"))
    assert len(leftover) == 1
    with Server(port=0, folder=str(tmp_path)):  # the next server cleans up
        assert not leftover[0].exists()
    assert not list(tmp_path.glob("tunefarm-server-*"))


def test_a_server_dies_with_its_owner(tmp_path):
    code = f"""
        import time
        from rpc_server.box.server import Server
        server = Server(port=0, folder={str(tmp_path)!r})
        print(server.pid, flush=True)
        time.sleep(600)
    """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    pid = int(owner.stdout.readline())
    assert is_alive(pid)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_until(lambda: not is_alive(pid))
    wait_until(lambda: not list(tmp_path.glob("tunefarm-server-*")))


def test_a_server_dies_with_its_owner_though_a_fork_of_it_lives_on(tmp_path):
    """A worker of multiprocessing has the pipe that the server watches, and may wait for ever for its dead parent."""
    code = f"""
        import os, time
        from rpc_server.box.server import Server
        server = Server(port=0, folder={str(tmp_path)!r})
        fork = os.fork()
        if fork:
            print(server.pid, fork, flush=True)
        time.sleep(600)
    """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    pid, fork = map(int, owner.stdout.readline().split())
    try:
        owner.kill()
        owner.wait()
        wait_until(lambda: not is_alive(pid))
        assert is_alive(fork)
    finally:
        os.kill(fork, signal.SIGKILL)
        owner.stdout.close()


def test_a_stopping_server_tells_its_clients():
    server = Server(port=0)
    session = open_session("127.0.0.1", server.port, wait_s=60)
    server.terminate()
    with pytest.raises(SessionClosed, match=r"SIGTERM|gone"):
        session.cpu().sync()
    session.close()


def test_executors_give_up_root():
    if os.geteuid() != 0:
        pytest.skip("only a server started as root can change the user of its executors")
    with Server(port=0) as server, open_session("127.0.0.1", server.port, wait_s=60) as remote:
        status = Path(f"/proc/{remote.executor_pid}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        assert "0" not in uids
        assert remote.measure(*trial("add_one")).ok
