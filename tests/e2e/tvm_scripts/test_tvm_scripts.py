"""Programs written for Apache TVM run here unedited, and print what they print there (`outputs.json`)."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from compiler.runtime.core import registry
from tests.kit.places import TESTS
from tests.kit.tvm_names.installed import tvm_installed
from tuner.faces.auto_scheduler.workload_registry import WORKLOAD_FUNC_REGISTRY

HERE = TESTS / "e2e" / "tvm_scripts"
OUTPUTS = json.loads((HERE / "outputs.json").read_text())


@pytest.fixture(scope="module", autouse=True)
def tvm_is_tunefarm() -> Iterator[None]:
    with tvm_installed():
        yield


def test_every_program_has_its_output() -> None:
    assert sorted(OUTPUTS) == sorted(file.relative_to(HERE).as_posix() for file in HERE.glob("*/*.py"))


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_program_prints_what_it_prints_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    # Another test's workloads have equal names; functions that a program registers are its own.
    workloads, functions = patch.dict(WORKLOAD_FUNC_REGISTRY, clear=True), patch.dict(registry._functions)
    with contextlib.redirect_stdout(printed), workloads, functions:
        runpy.run_path(str(HERE / name), run_name="__main__")
    assert printed.getvalue().splitlines() == OUTPUTS[name]["lines"]
