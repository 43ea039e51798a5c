"""What an executor may do: each limit as the kernel of the operating system shows it, and as a candidate meets it."""

import os
import resource
import stat
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from rpc_kernels import kernel

from compiler.errors import DeviceError
from compiler.runtime import ndarray as nd
from rpc_server.client import open_session
from rpc_server.errors import RPCError
from rpc_server.server import Server

MEMORY = 1 << 30


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        cpu = min(os.sched_getaffinity(0))
        with Server(port=0, folder=folder, memory_limit=MEMORY, cpus=(cpu,), sessions=2, silent=True) as running:
            running.folder, running.cpu = Path(folder), cpu
            yield running


@pytest.fixture
def remote(server):
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        yield session


def limit(remote, words):
    """(soft, hard) of the executor's limit that the system calls `words`."""
    lines = Path(f"/proc/{remote.executor_pid}/limits").read_text().splitlines()
    soft, hard = next(line.removeprefix(words).split()[:2] for line in lines if line.startswith(words))
    return int(soft), int(hard)


def test_no_core_dumps(remote):
    assert limit(remote, "Max core file size") == (0, 0)


def test_few_open_files(remote):
    soft, hard = limit(remote, "Max open files")
    assert soft == hard <= 1024


def test_bounded_address_space(remote):
    soft, hard = limit(remote, "Max address space")
    assert MEMORY < soft == hard
    size = int(Path(f"/proc/{remote.executor_pid}/statm").read_text().split()[0]) * resource.getpagesize()
    assert soft < size + MEMORY + (256 << 20)
    with pytest.raises(DeviceError, match="cannot allocate"):
        nd.empty((MEMORY // 4 + 1024,), "float32", remote.cpu())
    remote.cpu().sync()  # refused, not killed


def test_pinned_to_its_cores(server, remote):
    assert os.sched_getaffinity(remote.executor_pid) == {server.cpu}


def test_a_private_folder(server, remote):
    remote.upload(b"mine", "mine")
    (folder,) = {path.parent for path in server.folder.glob("tunefarm-server-*/session-*/mine")}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    environment = Path(f"/proc/{remote.executor_pid}/cwd").resolve()
    assert environment == folder
    with open_session("127.0.0.1", server.port, wait_s=60) as other, pytest.raises(RPCError):
        other.download("mine")


def test_an_unprivileged_user_without_a_way_back(remote):
    if os.geteuid() != 0:
        pytest.skip("only a server started as root can change the user of its executors")
    lines = Path(f"/proc/{remote.executor_pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert "0" not in status["Uid"].split()
    assert "0" not in status["Gid"].split()
    assert status["Groups"].strip() == ""
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"


def test_a_detached_child_of_a_kernel_does_not_outlive_the_session(server):
    """A kernel may fork, and its child leave the process group: killing the group is not enough."""
    with open_session("127.0.0.1", server.port, wait_s=60) as remote:
        remote.upload(kernel("daemon").to_bytes(), "k.tunefarm")
        function = remote.load_module("k.tunefarm")["kernel"]
        a = nd.array(np.zeros(1024, np.float32), remote.cpu())
        pid = remote.executor_pid
        function(a, a)
        folder = Path(f"/proc/{pid}/cwd").resolve()
        assert processes_in(folder) - {pid}
    end = time.monotonic() + 20.0
    while processes_in(folder):
        assert time.monotonic() < end, "the detached child lives on"
        time.sleep(0.05)


def processes_in(folder):
    """Pids whose working directory is, or was before it was deleted, `folder`."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                where = os.readlink(entry / "cwd").removesuffix(" (deleted)")
            except OSError:
                continue
            if where == str(folder):
                found.add(int(entry.name))
    return found
