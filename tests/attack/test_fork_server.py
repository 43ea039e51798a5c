"""The process that executors are forked from: what it passes on, and that a server outlives it."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.machine.children import executor_environment
from tests.kit.process_tree import child_of, is_alive


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server", numbered=True)
    folder.chmod(0o755)
    with Server(port=0, folder=str(folder), sessions=3, warm=1, silent=True) as running:
        yield running


def held(pid):
    """List what a process has open that another one could share: pipes, sockets, memory files."""
    links = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            target = os.readlink(path)
            links.add(target if target.startswith(("pipe:", "socket:")) else f"{target} {os.stat(path).st_ino}")
    return {link for link in links if not link.startswith(("/dev/null", "anon_inode"))}


def forked_from(server):
    """The number of its fork server."""
    end = time.monotonic() + 60
    while not (pid := child_of(server.pid, "fork_server")) or not is_alive(pid):
        assert time.monotonic() < end
        time.sleep(0.02)
    return pid


def test_an_executor_holds_nothing_of_another_nor_of_the_fork_server(server):
    with (
        open_session("127.0.0.1", server.port, wait_s=60) as ann,
        open_session("127.0.0.1", server.port, wait_s=60) as bob,
    ):
        assert ann.executor_pid != bob.executor_pid
        of_ann, of_bob = held(ann.executor_pid), held(bob.executor_pid)
        assert of_ann
        assert of_bob
        assert not of_ann & of_bob
        assert not (of_ann | of_bob) & held(child_of(server.pid, "fork_server"))


def test_a_server_outlives_its_fork_server(server):
    """Sessions that are open notice nothing; the next executors come from another one."""
    with open_session("127.0.0.1", server.port, wait_s=60) as ann:
        first = child_of(server.pid, "fork_server")
        os.kill(first, signal.SIGKILL)
        ann.cpu().sync()
        for _ in range(2):  # the spare, and one that is new
            with open_session("127.0.0.1", server.port, wait_s=60) as bob:
                bob.cpu().sync()
        assert forked_from(server) != first
        ann.cpu().sync()


def test_one_that_ends_before_it_is_ready_is_replaced(tmp_path):
    tmp_path.chmod(0o755)
    with Server(port=0, folder=str(tmp_path), warm=1, silent=True) as server:
        os.kill(forked_from(server), signal.SIGKILL)
        with open_session("127.0.0.1", server.port, wait_s=60) as ann:
            ann.cpu().sync()


def test_it_leaves_no_thread_behind_when_it_is_warm(tmp_path):
    """A fork of a process with threads may find their locks taken for ever."""
    # The kernel lists a thread for a moment after it was joined.
    code = """
        import os, time, rpc_server.executor.fork_server as f
        f.warm_up(gpu=True)
        end = time.monotonic() + 60
        while (count := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < end:
            time.sleep(0.01)
        print(count)
    """
    env = executor_environment(OPENBLAS_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.stdout.strip() == "1", done.stderr
