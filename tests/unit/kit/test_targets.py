"""CI runs every target of the Makefile: in `make test`, or in its shortest form."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from tests.kit.places import ROOT


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_target_runs() -> None:
    shortest = script("shortest")
    assert set(shortest.documented()) == {*shortest.TARGETS, *shortest.APART}


def test_every_benchmark_has_a_shortest_form() -> None:
    bench = script("bench")
    assert set(bench.scripts()) == set(bench.QUICK)
    assert set(bench.QUICK) >= bench.RECORDERS
