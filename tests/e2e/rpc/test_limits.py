"""An executor's limits: each as the kernel of the operating system shows it, and as a candidate meets it."""

import os
import resource
import stat
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from compiler.errors import DeviceError
from compiler.runtime.core import ndarray as nd
from rpc_server.box.server import Server
from rpc_server.box.task_groups import TaskGroups
from rpc_server.client.connect import open_session
from rpc_server.errors import DeadlineExceeded, ExecutorCrashed, RemoteFileError, RPCError
from tests.kit.farm.rpc_kernels import kernel

MEMORY = 1 << 30
DISK = 8 << 20


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        cpu = min(os.sched_getaffinity(0))
        limits = {"memory_limit": MEMORY, "disk_limit": DISK, "processes": 64, "cpus": (cpu,)}
        with Server(port=0, folder=folder, sessions=2, silent=True, **limits) as running:
            running.folder, running.cpu = Path(folder), cpu
            yield running


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
    (folder,) = {path.parent for path in server.folder.glob("tunefarm-server-*/executor-*/mine")}
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
    end = time.monotonic() + 60.0
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


def test_a_fork_bomb_ends_with_its_session_and_hurts_no_other(server):
    """The kernel of the operating system refuses it more processes; the deadline ends it and all it forked."""
    with (
        open_session("127.0.0.1", server.port, wait_s=60) as bystander,
        open_session("127.0.0.1", server.port, wait_s=60, call_timeout=60.0) as remote,
    ):
        if os.stat(f"/proc/{remote.executor_pid}").st_uid == 0:
            pytest.skip("the system does not limit the processes of root")
        soft, hard = limit(remote, "Max processes")
        assert soft == hard
        remote.upload(kernel("fork_bomb").to_bytes(), "k.tunefarm")
        function = remote.load_module("k.tunefarm")["kernel"]
        a = nd.array(np.zeros(1024, np.float32), remote.cpu())
        folder = Path(f"/proc/{remote.executor_pid}/cwd").resolve()
        remote.call_timeout = 2.0
        with pytest.raises(DeadlineExceeded):
            function(a, a)
        x = np.arange(1000, dtype="float32")
        np.testing.assert_array_equal(nd.array(x, bystander.cpu()).numpy(), x)
    end = time.monotonic() + 60.0
    while processes_in(folder):
        assert time.monotonic() < end, "some of the bomb lives on"
        time.sleep(0.05)
    with open_session("127.0.0.1", server.port, wait_s=60) as after:
        after.cpu().sync()


def test_a_fork_bomb_that_is_root_is_held_by_a_control_group(server):
    if os.geteuid() != 0 or not TaskGroups(64, None).limits_processes:
        pytest.skip("only root can stay root, and this system lets it make no control groups")
    with (
        Server(port=0, folder=str(server.folder), user="", processes=64, silent=True) as own,
        open_session("127.0.0.1", own.port, wait_s=60, call_timeout=60.0) as remote,
    ):
        assert os.stat(f"/proc/{remote.executor_pid}").st_uid == 0
        assert remote.status().limits_processes
        remote.upload(kernel("fork_bomb").to_bytes(), "k.tunefarm")
        function = remote.load_module("k.tunefarm")["kernel"]
        a = nd.array(np.zeros(1024, np.float32), remote.cpu())
        folder = Path(f"/proc/{remote.executor_pid}/cwd").resolve()
        remote.call_timeout = 2.0
        raised = []

        def fork() -> None:
            try:
                function(a, a)
            except RPCError as error:
                raised.append(error)

        thread = threading.Thread(target=fork)
        thread.start()
        most = 0
        while thread.is_alive():
            most = max(most, len(processes_in(folder)))
            time.sleep(0.05)
        thread.join()
        assert isinstance(raised[0], DeadlineExceeded)
        assert most <= 64 + 3  # the warden is counted too
    end = time.monotonic() + 60.0
    while processes_in(folder):
        assert time.monotonic() < end, "some of the bomb lives on"
        time.sleep(0.05)


def test_filling_the_folder_ends_the_session_and_hurts_no_other(server):
    with (
        open_session("127.0.0.1", server.port, wait_s=60) as bystander,
        open_session("127.0.0.1", server.port, wait_s=60) as remote,
    ):
        bystander.upload(b"mine", "mine")
        remote.upload(kernel("litter").to_bytes(), "k.tunefarm")
        function = remote.load_module("k.tunefarm")["kernel"]
        a = nd.array(np.zeros(1024, np.float32), remote.cpu())
        folder = Path(f"/proc/{remote.executor_pid}/cwd").resolve()
        with pytest.raises(ExecutorCrashed, match="folder grew past what the box allows"):
            function(a, a)
        assert bystander.download("mine") == b"mine"
    end = time.monotonic() + 60.0
    while folder.exists():
        assert time.monotonic() < end, "what it wrote is still there"
        time.sleep(0.05)


def test_one_file_cannot_take_more_than_the_box_allows(remote):
    assert limit(remote, "Max file size") == (DISK, DISK)
    with pytest.raises(RemoteFileError, match="File too large"):
        remote.upload(bytes(DISK + 1), "big")
    remote.upload(b"small", "big")
    assert remote.download("big") == b"small"
