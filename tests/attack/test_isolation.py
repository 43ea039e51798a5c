"""A hostile kernel against the machine it runs on: what docs/security.md says of isolation, tried."""

import _ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.errors import OutOfMemory, RPCError, ServerStartError
from rpc_server.isolation import landlock
from rpc_server.isolation.kernel import PR_SET_DUMPABLE, prctl
from rpc_server.isolation.probe import find_means
from rpc_server.machine.children import executor_environment
from rpc_server.wire.trial_messages import FailureKind, MeasureRequest
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.farm.shell_kernel import require_full, shell
from tests.kit.process_tree import is_alive

SECRET = "hunter2-of-the-database"
MEMORY = 1 << 30


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        require_full(Path(folder))
        os.chmod(folder, 0o755)
        patch.setenv("TUNEFARM_DB", f"postgresql://tuner:{SECRET}@db/records")
        patch.setenv("PGPASSWORD", SECRET)
        Path(folder, "secret").write_text(SECRET)
        with Server(port=0, folder=folder, sessions=3, warm=1, silent=True, memory_limit=MEMORY) as running:
            running.folder = Path(folder)
            yield running


@pytest.fixture
def remote(server):
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        yield session


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_box_says_what_it_promises(remote):
    status = remote.status()
    assert status.isolation == "full"
    assert status.is_open == ()


def test_what_the_box_was_given_is_there_though_it_lies_in_tmp(tmp_path):
    require_full(tmp_path)
    with tempfile.TemporaryDirectory(dir="/tmp") as given:
        os.chmod(given, 0o755)
        library = Path(given, "given.so")
        shutil.copy(_ctypes.__file__, library)
        folder = tmp_path / "folder"
        folder.mkdir(mode=0o755)
        with (
            Server(port=0, folder=str(folder), warm=1, silent=True, load_library=str(library)) as running,
            open_session("127.0.0.1", running.port, wait_s=60) as session,
        ):
            listed = shell(session, f"ls {given}; touch {given}/more 2>&1 || echo read-only; ls /tmp")
    assert listed.splitlines()[0] == "given.so"
    assert Path(given).name in listed.splitlines()[-1]


def test_no_secret_of_the_server_in_the_environment(remote):
    assert SECRET not in shell(remote, "env; cat /proc/*/environ | tr '\\0' '\\n'")


def test_the_environment_is_a_list_of_what_may_pass(monkeypatch):
    monkeypatch.setenv("TUNEFARM_DB", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("LC_ALL", "C")
    found = executor_environment(MORE="1")
    assert SECRET not in found.values()
    assert (found["LC_ALL"], found["MORE"]) == ("C", "1")


def test_files_of_the_machine_are_not_there(server, remote):
    assert "No such file" in shell(remote, f"cat {server.folder}/secret")
    assert shell(remote, "ls /home /run /srv /root/.ssh /etc/shadow 2>/dev/null") == ""
    checkout = Path(__file__).resolve().parents[2]
    assert "No such file" in shell(remote, f"ls {checkout}/pyproject.toml")
    assert "Read-only" in shell(remote, "touch /usr/x") or "denied" in shell(remote, "touch /usr/x")


def test_no_session_reaches_another_ones_folder_nor_a_spare(server, remote):
    """The warm spare is the next client's."""
    wait_until(lambda: len(set(server.folder.glob("tunefarm-server-*/executor-*"))) > 1)
    wait_until(lambda: remote.status().warm)
    folders = set(server.folder.glob("tunefarm-server-*/executor-*"))
    listed = shell(remote, f"ls -d {server.folder}/*/* ; for f in {server.folder}/*/executor-*; do touch $f/x; done")
    assert listed.count("executor-") == 1
    owners = {folder.stat().st_uid for folder in folders if folder.exists()}
    if os.geteuid() == 0:
        assert len(owners) > 1
        assert 0 not in owners


def test_no_other_process_is_seen_or_stopped(server, remote):
    with open_session("127.0.0.1", server.port, wait_s=60) as other:
        seen = shell(remote, "ls -d /proc/[0-9]*").split()
        assert len(seen) < 10
        shell(remote, f"kill -9 {other.executor_pid} {server.pid} {os.getpid()}")
        other.cpu().sync()


def test_no_network(remote):
    """A service on loopback, and one of an abstract name, are out of reach."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0tunefarm-attack")
        unix.listen()
        code = f"""
            import socket
            inet, unix = ("127.0.0.1", {tcp.getsockname()[1]}), "\\0tunefarm-attack"
            for family, address in (socket.AF_INET, inet), (socket.AF_UNIX, unix):
                try:
                    socket.socket(family).connect(address)
                    print("reached", address)
                except OSError as error:
                    print(error.strerror)
        """
        remote.upload(textwrap.dedent(code).encode(), "reach.py")
        said = shell(remote, f"{sys.executable} reach.py").splitlines()
        assert said == ["Network is unreachable", "Connection refused"]
        tcp.setblocking(False)
        with pytest.raises(BlockingIOError):
            tcp.accept()


def test_dangerous_system_calls_are_refused(remote):
    code = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        for name, call in (("unshare", lambda: libc.unshare(0x10000000)), ("ptrace", lambda: libc.ptrace(0, 0, 0, 0)),
                           ("mount", lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None)),
                           ("shmget", lambda: libc.shmget(0, 4096, 0o1600)),
                           ("vsock", lambda: libc.socket(40, 1, 0)), ("packet", lambda: libc.socket(17, 3, 0))):
            print(name, call(), ctypes.get_errno())
    """
    remote.upload(textwrap.dedent(code).encode(), "calls.py")
    answers = dict(line.split(" ", 1) for line in shell(remote, f"{sys.executable} calls.py").splitlines())
    assert set(answers) == {"unshare", "ptrace", "mount", "shmget", "vsock", "packet"}
    assert all(answer.startswith("-1 ") for answer in answers.values())
    status = shell(remote, "grep -E 'CapEff|CapPrm|NoNewPrivs|Seccomp:' /proc/self/status").split()
    assert status == ["CapPrm:", "0000000000000000", "CapEff:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]


def test_memory_of_children_counts(server):
    """Each of them takes less than the limit, all of them together more."""
    with open_session("127.0.0.1", server.port, wait_s=60) as remote:
        take = f"{sys.executable} -c \"import time; x = b'1' * ({MEMORY} // 3); time.sleep(60)\""
        with pytest.raises(OutOfMemory):
            shell(remote, f"for i in 1 2 3 4; do {take} & done; wait")


def test_files_in_memory_count_and_go_with_the_session(server):
    before = set(os.listdir("/dev/shm")) | set(os.listdir("/tmp"))
    with open_session("127.0.0.1", server.port, wait_s=60) as remote:
        wrote = shell(remote, "for d in /dev/shm /tmp; do head -c 400M /dev/zero >$d/attack-left; done")
        assert "No space left" in wrote
    left = (set(os.listdir("/dev/shm")) | set(os.listdir("/tmp"))) - before
    assert "attack-left" not in left


def test_nothing_outlives_a_killed_server(tmp_path):
    """The children left their process group, and the server had no time to do anything."""
    tmp_path.chmod(0o755)
    code = f"""
        import time
        from rpc_server.box.server import Server
        server = Server(port=0, folder={str(tmp_path)!r}, silent=True)
        print(server.port, server.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as owner:
        port, pid = map(int, owner.stdout.readline().split())
        remote = open_session("127.0.0.1", port, wait_s=60)
        mark = f"600.{os.getpid()}"
        shell(remote, f"setsid -f sleep {mark}; setsid -f sleep {mark}")
        executor = remote.executor_pid

        def left():
            found = []
            for entry in Path("/proc").iterdir():
                try:
                    if entry.name.isdecimal() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
            return found

        wait_until(lambda: len(left()) == 2)  # in the moment of an exec they have no words
        os.kill(pid, 9)
        wait_until(lambda: not left() and not is_alive(executor))
        owner.kill()
    with pytest.raises(RPCError):
        remote.cpu().sync()
    remote.close()


def test_files_of_a_session_survive_a_crash_within_it(server):
    """The next executor is another user, and sees another folder: the files are moved there, and are its own."""
    with open_session("127.0.0.1", server.port, wait_s=60) as remote:
        remote.upload(b"kept", "kept")
        shell(remote, "mkdir -p deep/er; echo more >deep/er/file; ln -s /etc/passwd link")
        artifact = kernel("segfault")
        bad = remote.measure(MeasureRequest(artifact=artifact.digest, timeout_s=120.0), [artifact])
        assert bad.failure is FailureKind.CRASH
        assert bytes(remote.download("kept")) == b"kept"
        assert shell(remote, "cd deep/er; cat file; echo again >file; cat file").split() == ["more", "again"]
        assert os.stat("/etc/passwd").st_uid == 0


def test_what_is_left_without_namespaces():
    """Another user, Landlock and refused system calls: no network, nobody else's files, nothing written elsewhere."""
    if os.geteuid() != 0:
        pytest.skip("only a server started as root can change the user of its executors")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        Path(folder, "open-to-all").write_text(SECRET)
        with (
            Server(port=0, folder=folder, isolation="partial", silent=True) as box,
            open_session("127.0.0.1", box.port, wait_s=60) as remote,
        ):
            status = remote.status()
            assert status.isolation == "partial"
            assert status.is_open
            if not landlock.version():
                pytest.skip("this kernel has no Landlock")
            assert SECRET not in shell(remote, f"cat {folder}/open-to-all; cat /proc/{box.pid}/environ")
            assert "denied" in shell(remote, "touch /tmp/attack-left /dev/shm/attack-left")
            code = "import socket; socket.socket().connect(('127.0.0.1', 22))"
            assert "Permission denied" in shell(remote, f'{sys.executable} -c "{code}"')


def test_a_user_without_rights_isolates_too():
    """In a user namespace: tried by a child that has given up root."""
    if os.geteuid() != 0:
        pytest.skip("the other tests are it")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                prctl(PR_SET_DUMPABLE, 1)  # as it is for one that never was root
                os.write(tell, find_means("each", Path(folder)).no_namespaces.encode())
            finally:
                os._exit(0)
        os.close(tell)
        with os.fdopen(told) as answer:
            problem = answer.read()
        os.waitpid(child, 0)
    if problem and not os.environ.get("CI"):
        pytest.skip(f"no user namespaces here: {problem}")
    assert problem == ""


def test_a_folder_that_others_cannot_enter_makes_no_kernel_root(tmp_path):
    """They need not enter it where there are namespaces; elsewhere the server refuses to start."""
    if os.geteuid() != 0:
        pytest.skip("only root can give up being root")
    tmp_path.chmod(0o700)
    with pytest.raises(ServerStartError, match="kernels would run as root"):
        Server(port=0, folder=str(tmp_path), isolation="partial", silent=True)
    with (
        Server(port=0, folder=str(tmp_path), silent=True) as box,
        open_session("127.0.0.1", box.port, wait_s=60) as remote,
    ):
        assert shell(remote, "id -u") != "0"
