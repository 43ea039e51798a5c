"""Ctrl-C and SIGTERM before a command has begun."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTED_AT = """
import os, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))

sys.meta_path.insert(0, Interrupt())
from tunefarm.cli.main import main
main(["tune", "matmul:16,16,16:float32", "--quiet"])
"""


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("click", signal.SIGINT),
        ("tunefarm.cli.tuning.tune", signal.SIGINT),
        ("tuner.engine.engine", signal.SIGINT),
        ("click", signal.SIGTERM),
        ("tuner.engine.engine", signal.SIGTERM),
    ],
)
def test_while_a_command_imports_it_ends_without_a_traceback(module: str, number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT, module, str(int(number))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []
