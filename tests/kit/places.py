"""Where things lie in the tree, and the way to it for processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DOCS = ROOT / "docs"
BENCHMARKS = ROOT / "benchmarks"
STAND_IN = TESTS / "stand_in"
"""Stands for PyCUDA in processes that have this folder on their path."""


def python_path(*first: Path) -> str:
    """PYTHONPATH for a process that imports `tests.kit`, after the folders named."""
    return os.pathsep.join([*map(str, first), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
