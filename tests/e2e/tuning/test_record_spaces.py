"""Spaces of this machine's family are recorded beside those of others, and what is recorded is not recorded again."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

from compiler.target.target import Target
from tests.kit.places import BENCHMARKS
from tuner.model.machine import target_family

SCRIPT = BENCHMARKS / "record_spaces.py"
FAMILY = target_family(Target.host())


def record(data: Path, *words: str) -> str:
    sizes = ("--only", "matmul:16,16,16", "--points", "8", "--data", str(data))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *sizes, *words], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stderr


def test_a_space_is_recorded_for_this_machine_s_family(tmp_path):
    made, other = (tmp_path / f / "spaces-matmul-16-16-16.jsonl.gz" for f in (FAMILY, "llvm-other-1"))
    for path in (made, other):
        path.parent.mkdir()
        path.write_bytes(b"an old one")
    assert f"{FAMILY}: 0 of 1 workloads" in record(tmp_path)
    assert made.read_bytes() == b"an old one"
    assert f"{FAMILY}: 1 of 1 workloads" in record(tmp_path, "--again")
    head, *lines = [json.loads(line) for line in gzip.decompress(made.read_bytes()).decode().splitlines()]
    assert target_family(Target(head["target"])) == FAMILY
    assert head["about"]["machine"]
    assert any(isinstance(line, list) and line[2] > 0 for line in lines)
    assert other.read_bytes() == b"an old one"
