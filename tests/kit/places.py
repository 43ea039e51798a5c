"""Where things lie in the tree, and the way to it for processes that tests start."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DOCS = ROOT / "docs"
BENCHMARKS = ROOT / "benchmarks"
STAND_IN = TESTS / "stand_in"
"""Stands for PyCUDA in processes that have this folder on their path."""


def python_path(*first: Path) -> str:
    """PYTHONPATH for a process that imports `tests.kit`, after the folders named."""
    return os.pathsep.join([*map(str, first), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def loaded(file: Path, name: str) -> ModuleType:
    """A module of `file`, which no package holds, under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ci_script(name: str) -> ModuleType:
    return loaded(ROOT / ".ci" / f"{name}.py", f"ci_{name}")
