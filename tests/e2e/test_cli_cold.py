"""Commands in processes that have imported nothing, as a person starts them: most tests fork theirs (warm_cli.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunefarm.cli.main import COMMANDS

MODULES = {command.where.partition(":")[0]: name for name, command in COMMANDS.items()}


def tunefarm(folder: Path, *args: str) -> str:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TUNEFARM_")} | {"XDG_CONFIG_HOME": str(folder)}
    command = [sys.executable, "-m", "tunefarm", *args]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", MODULES.values())
def test_the_module_of_a_command_is_the_first_to_be_imported(tmp_path, name):
    assert f"Usage: tunefarm {name}" in tunefarm(tmp_path, name, "--help")


def test_a_run_is_resumed_by_a_process_that_knows_nothing_of_it(tmp_path):
    store = ("--db", str(tmp_path / "farm.db"))
    tunefarm(tmp_path, "tune", "matmul:16,16,16:float32", "--trials", "2", "--quiet", *store)
    tunefarm(tmp_path, "tune", "--resume", "1", "--trials", "4", "--quiet", *store)
    assert "4/4" in tunefarm(tmp_path, "runs", *store)
