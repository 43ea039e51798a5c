"""Processes that start often must not import slow modules: each costs part of a second of a core, every time."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "sqlalchemy", "alembic", "lightgbm", "pandas", "rich", "llvmlite", "fastapi")
# in the order of what they need, as one process imports them all
NEEDED = {
    "tunefarm.cli.tuning.tune": set[str](),
    "rpc_server.box.server": {"llvmlite"},  # for the CPU's name and features
    "tuner.build.preload": {"llvmlite", "numpy"},
    "tunefarm.cli.tuning.tune_run": {"llvmlite", "numpy", "rich", "sqlalchemy"},
}

SCRIPT = f"""
import importlib, sys
for name in {list(NEEDED)}:
    importlib.import_module(name)
    print(name, *(heavy for heavy in {HEAVY} if heavy in sys.modules))
"""


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    found = {name: set(heavy) for name, *heavy in map(str.split, done.stdout.splitlines())}
    assert found == NEEDED
