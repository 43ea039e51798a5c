"""Databases in TVM 0.17's files, from it and for it (`tests/data/tvm_database`)."""

from __future__ import annotations

import gzip
import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.places import TESTS
from tunefarm import as_tvm

DATA = TESTS / "data" / "tvm_database"
FILES = ("database_workload.json", "database_tuning_record.json")


@pytest.fixture
def program() -> Iterator[dict[str, Any]]:
    """The names of the program that made both databases."""
    before = set(sys.modules)
    as_tvm.install()
    yield runpy.run_path(str(DATA / "kernels.py"))
    as_tvm.uninstall()
    for name in {*sys.modules} - before:
        if name.partition(".")[0] == "tvm":
            del sys.modules[name]


def kept(side: str, name: str) -> str:
    return gzip.decompress((DATA / side / f"{name}.gz").read_bytes()).decode()


@pytest.mark.parametrize("side", ["theirs", "ours"])
def test_workloads_are_found_and_traces_make_the_modules_of_their_schedules(
    side: str, program: dict[str, Any], tmp_path: Path
) -> None:
    for name in FILES:
        (tmp_path / name).write_text(kept(side, name))
    best = {"matmul": 0.5, "conv2d": 0.25, "softmax": 1.25, "bytes_product": 1.0}
    wanted = [(schedule.__name__, True, True, best[made.__name__]) for made, schedule, _ in program["CASES"]]
    assert program["read"](tmp_path) == wanted
    assert [(tmp_path / name).read_text() for name in FILES] == [kept(side, name) for name in FILES]


def test_what_is_written_is_what_tvm_has_read(program: dict[str, Any], tmp_path: Path) -> None:
    program["write"](tmp_path)
    for name in FILES:
        wanted = [json.loads(line) for line in kept("ours", name).splitlines()]
        assert [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] == wanted
