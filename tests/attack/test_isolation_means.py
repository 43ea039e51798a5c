"""The same isolation by other means: a server without root's rights, and control groups of version 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from rpc_server.box.task_groups import TaskGroups
from tests.kit.farm.shell_kernel import require_full
from tests.kit.places import python_path

NOBODY = 65534
SERVER = """
    import os, tempfile
    from rpc_server.box.server import Server
    from rpc_server.client.connect import open_session
    from tests.kit.farm.shell_kernel import shell
    if __name__ == "__main__":
        assert os.getuid() == os.geteuid() == 65534
        with (
            tempfile.TemporaryDirectory() as folder,
            Server(port=0, folder=folder, silent=True) as server,
            open_session("127.0.0.1", server.port, wait_s=60) as session,
        ):
            status = session.status()
            print(status.isolation, status.is_open)
            print(shell(session, f"kill -9 {server.pid}; ls -d /proc/[0-9]* | wc -l"))
            print(shell(session, "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status"))
"""
AS_NOBODY = """
    set -e
    mount --bind "$1" "$2/python"
    mount -t tmpfs -o mode=755 none "$3"
    mkdir -p "$1"
    mount --bind "$2/python" "$1"
    shift 3
    exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
"""


def test_a_server_without_rights(tmp_path):
    """All of a server's life as a user without any right: full isolation, in a user namespace."""
    if os.geteuid() != 0:
        pytest.skip("the tests of test_isolation.py run without root's rights here")
    if missing := [tool for tool in ("unshare", "setpriv", "mount") if not shutil.which(tool)]:
        pytest.skip(f"there is no {missing[0]} to give up root's rights with")
    require_full(tmp_path)
    places = Path(tempfile.mkdtemp())  # tmp_path lies in a folder of its user's
    try:
        script, python, empty = places / "server.py", places / "python", places / "empty"
        for folder in (python, empty):
            folder.mkdir()
        places.chmod(0o755)
        script.write_text(textwrap.dedent(SERVER))
        # Python may lie where only root may look: shown to the others here alone.
        prefix = Path(sys.base_prefix).resolve()
        hidden = next((p for p in reversed(prefix.parents) if not p.stat().st_mode & 0o001), empty)
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": python_path(), "HOME": "/tmp", "TMPDIR": "/tmp"}
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", textwrap.dedent(AS_NOBODY), "sh"]
        command += [str(prefix), str(places), str(hidden), sys.executable, str(script)]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, cwd="/usr")
    finally:
        shutil.rmtree(places)
    assert ran.returncode == 0, ran.stderr
    first, *said = ran.stdout.splitlines()
    assert first == "full ()"
    assert int(said[-4]) < 10  # processes
    assert said[-3:] == ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"]


def test_memory_of_a_control_group():
    """Version 2: the kernel ends what takes more than its group may have, and all of a group at its end."""
    groups = TaskGroups(processes=64, memory=1 << 20)
    if not groups.limits_memory:
        pytest.skip("no control group of version 2 hands its memory controller down to this process")
    try:
        (procs,) = groups.make(1)
        join = f"open({procs!r}, 'w').write(str(__import__('os').getpid()));"
        taken = subprocess.run([sys.executable, "-c", join + "x = b'1' * (2 << 30)"])
        assert taken.returncode == -9
        with subprocess.Popen([sys.executable, "-c", join + "import time; time.sleep(600)"]) as left:
            end = time.monotonic() + 60
            while str(left.pid) not in Path(procs).read_text().split():
                assert time.monotonic() < end
                time.sleep(0.01)
            groups.remove(1)
            assert left.wait(60) == -9
    finally:
        groups.remove(1)
    assert not Path(procs).exists()


def test_processes_of_a_control_group():
    """Groups of either version hold it to so many tasks, and no more."""
    groups = TaskGroups(processes=4, memory=None)
    if not groups.limits_processes:
        pytest.skip("no control group here limits processes for this process")
    try:
        (procs,) = groups.make(1)
        code = (
            f"import os; open({procs!r}, 'w').write(str(os.getpid()))\n"
            "try:\n    [os.fork() or os._exit(__import__('signal').pause()) for _ in range(50)]\n"
            "except BlockingIOError:\n    print('no more')\n"
            "finally:\n    os.killpg(0, 9)"
        )
        command = [sys.executable, "-u", "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as run:
            said, _ = run.communicate(timeout=120)
    finally:
        groups.remove(1)
    assert said == b"no more\n"
