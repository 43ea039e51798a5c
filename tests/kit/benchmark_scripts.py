"""Modules of benchmarks/ for tests of them."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from tests.kit.places import BENCHMARKS


def benchmark_script(name: str) -> ModuleType:
    """One of them, which finds the others that it imports: their names, at the end of the path, hide nothing."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    return importlib.import_module(name)
