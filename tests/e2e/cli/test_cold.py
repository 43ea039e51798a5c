"""Commands in processes that have imported nothing, as a person starts them: most tests fork theirs (kit.cli.warm)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tunefarm.cli.commands import COMMANDS
from tuner.records.model import RunState
from tuner.records.store import RecordStore

MODULES = {command.where.partition(":")[0]: name for name, command in COMMANDS.items()}

EACH_FIRST = """
import gc, os, runpy, sys
gc.disable()  # all that is imported stays
import click, llvmlite.binding, msgspec, numpy, sqlalchemy.dialects.sqlite, sqlalchemy.orm, zmq
assert not {"compiler", "rpc_server", "tracker", "tuner", "tunefarm", "webui"} & set(sys.modules)
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        sys.argv = ["tunefarm", name, "--help"]
        runpy.run_module("tunefarm", run_name="__main__", alter_sys=True)
        sys.exit()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"tunefarm {name} --help failed")
"""


def tunefarm(folder: Path, *args: str) -> str:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TUNEFARM_")} | {"XDG_CONFIG_HOME": str(folder)}
    command = [sys.executable, "-m", "tunefarm", *args]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_module_of_a_command_is_the_first_to_be_imported(tmp_path):
    """Each in a process that has imported what is not ours, which costs most, and nothing that is."""
    command = [sys.executable, "-c", EACH_FIRST, *MODULES.values()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in MODULES.values():
        assert f"Usage: tunefarm {name}" in done.stdout


def test_a_run_is_resumed_by_a_process_that_knows_nothing_of_it(tmp_path):
    store = ("--db", str(tmp_path / "farm.db"))
    tunefarm(tmp_path, "tune", "matmul:16,16,16:float32", "--trials", "2", "--quiet", *store)
    tunefarm(tmp_path, "tune", "--resume", "1", "--trials", "4", "--quiet", *store)
    with RecordStore.open(tmp_path / "farm.db") as records:
        (run,) = records.runs.newest()
    assert (run.state, run.trials) == (RunState.FINISHED, 4)
